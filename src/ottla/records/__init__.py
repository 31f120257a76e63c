"""Record batches, message format 2: constants, codecs, control records. The work on them is in `ottla.native`."""
