"""Files that come to be on disk, whole or not at all; knows neither the network nor a document."""
