"""What every broker reads: the immutable image of the metadata, and the deltas between images."""
