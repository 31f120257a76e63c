"""A queue of jobs: workers of two libraries, some killed, some jobs bad, some delayed; each is done once."""
