"""Tools for every module: waiting, tasks of an iterator, files and folders, hosts, texts."""
