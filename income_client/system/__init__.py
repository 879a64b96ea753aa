"""What any module may use: waiting, tasks of an iterator, files and folders, hosts, texts."""
