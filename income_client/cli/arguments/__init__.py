"""Arguments that several sub-commands take: times and ids."""
