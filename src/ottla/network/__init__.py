"""The skin between sockets and the parts above: listeners, connections, frames, back-pressure."""
