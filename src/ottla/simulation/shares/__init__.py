"""A share partition, its coordinator and its members, a thousand steps in a tenth of a second."""
