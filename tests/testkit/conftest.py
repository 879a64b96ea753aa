"""The example project is somebody else's: its tests run in processes of their own."""

collect_ignore = ["example_project"]
