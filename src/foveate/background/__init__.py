"""What happens to a turn after it is recorded, in the background: renditions and eras are made and kept."""
