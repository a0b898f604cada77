"""The parts of the ProcessLocker, one noun a file; `dirtybus.locker` is the door."""
