/* `connections.c` over TLS, with a login by SCRAM-SHA-512: two more arguments, USER and PASSWORD. */
#define SECURE
#include "connections.c"
