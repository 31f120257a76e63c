"""Client libraries with one face, so that one test can be run with each of them."""
