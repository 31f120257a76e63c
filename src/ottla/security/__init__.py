"""Who is there: how two sides prove to each other what they know, without I/O."""
