/* The client's side of a TLS connection: TLS 1.3 alone, full handshakes alone, AES-256-GCM alone. Nobody is checked. */
#ifndef TLS_CLIENT_H
#define TLS_CLIENT_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>

static void die_of_tls(const char *what) {
    fprintf(stderr, "%s: %s\n", what, ERR_reason_error_string(ERR_get_error()));
    exit(1);
}

static SSL_CTX *tls_context(void) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (context == NULL) die_of_tls("no TLS");
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    if (!SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION)) die_of_tls("no TLS 1.3");
    if (!SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384")) die_of_tls("no AES-256-GCM");
    return context;
}

/* NULL where the handshake fails; the socket blocks. */
static SSL *tls_connect(SSL_CTX *context, int fd) {
    SSL *ssl = SSL_new(context);
    if (ssl == NULL || !SSL_set_fd(ssl, fd)) die_of_tls("no TLS");
    if (SSL_connect(ssl) == 1) return ssl;
    SSL_free(ssl);
    return NULL;
}

#endif
