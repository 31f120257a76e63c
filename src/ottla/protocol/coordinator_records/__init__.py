"""The keys and values of records in the internal topics of the coordinators."""
