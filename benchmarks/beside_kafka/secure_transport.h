/* How `secure_connections` sends and receives: TLS, after a login by SASL with SCRAM-SHA-512 (RFC 5802). */
#ifndef SECURE_TRANSPORT_H
#define SECURE_TRANSPORT_H

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "tls_client.h"

enum { TRANSPORT_ARGUMENTS = 2, SASL_HANDSHAKE = 17, SASL_AUTHENTICATE = 36, HASH = 64, TEXT_MAX = 2048 };
#define TRANSPORT_USAGE " USER PASSWORD"

struct transport {
    int fd;
    SSL *ssl;
};

static SSL_CTX *context;
static const char *user, *password;

static void transport_prepare(char **arguments) {
    context = tls_context();
    user = arguments[0], password = arguments[1];
}

static void refused(const char *what) {
    fprintf(stderr, "connections: login: %s\n", what);
    exit(1);
}

static void exactly(SSL *ssl, unsigned char *bytes, size_t size) {
    for (size_t got = 0; got < size;) {
        int n = SSL_read(ssl, bytes + got, (int)(size - got));
        if (n <= 0) refused("the broker hung up");
        got += (size_t)n;
    }
}

/* A request without client id: its body is `size` bytes behind a length of `width` bytes. Returns the response's size,
 * without the correlation id. */
static size_t ask(SSL *ssl, int key, int version, int width, const void *body, size_t size, unsigned char *response) {
    unsigned char frame[TEXT_MAX + 32] = {0};
    size_t at = 14, all;
    uint32_t length;
    if (size > TEXT_MAX) refused("a challenge that is too long");
    frame[5] = (unsigned char)key, frame[7] = (unsigned char)version, frame[12] = frame[13] = 0xff;
    for (int i = width - 1; i >= 0; i--) frame[at++] = (unsigned char)(size >> (8 * i));
    memcpy(frame + at, body, size);
    all = at + size;
    length = htonl((uint32_t)(all - 4));
    memcpy(frame, &length, 4);
    if (SSL_write(ssl, frame, (int)all) != (int)all) refused("a request could not be sent");
    exactly(ssl, frame, 4);
    memcpy(&length, frame, 4);
    length = ntohl(length);
    if (length < 6 || length > TEXT_MAX) refused("a response of a size that cannot be");
    exactly(ssl, frame, length);
    memcpy(response, frame + 4, length - 4);
    if (response[0] || response[1]) {
        fprintf(stderr, "connections: login: api %d: error code %d\n", key, response[0] << 8 | response[1]);
        exit(1);
    }
    return length - 4;
}

/* What the server says in the response of SaslAuthenticate: behind the error code, a null text, and a length. */
static void said_by_server(const unsigned char *response, size_t size, char *text) {
    size_t message = response[2] == 0xff ? 0 : (size_t)response[2] << 8 | response[3], at = 4 + message + 4;
    if (at > size) refused("a response that is too short");
    memcpy(text, response + at, size - at);
    text[size - at] = 0;
}

static void mac(const unsigned char *key, const void *data, size_t size, unsigned char *out) {
    unsigned int length;
    if (HMAC(EVP_sha512(), key, HASH, data, size, out, &length) == NULL) die_of_tls("HMAC");
}

/* The same for all connections, for the user is one; it takes milliseconds to make. */
static const unsigned char *salted_password(const char *salt_text, int iterations) {
    static unsigned char salted[HASH], salt[TEXT_MAX];
    static char known[TEXT_MAX];
    if (strcmp(known, salt_text)) {
        size_t size = strlen(salt_text);
        int length = EVP_DecodeBlock(salt, (const unsigned char *)salt_text, (int)size);
        for (size_t i = size; i > 0 && salt_text[i - 1] == '='; i--) length--;
        if (length <= 0) refused("a salt that is not base64");
        PKCS5_PBKDF2_HMAC(password, -1, salt, length, iterations, EVP_sha512(), HASH, salted);
        strcpy(known, salt_text);
    }
    return salted;
}

static void log_in(SSL *ssl) {
    static long number;
    unsigned char response[TEXT_MAX + 8], key[HASH], stored[HASH], signature[HASH], proof[HASH * 2];
    char first[256], server[TEXT_MAX + 8], last[TEXT_MAX + 256], salt[TEXT_MAX], signed_text[3 * TEXT_MAX], nonce[TEXT_MAX];
    int iterations;
    ask(ssl, SASL_HANDSHAKE, 1, 2, "SCRAM-SHA-512", 13, response);
    snprintf(first, sizeof first, "n,,n=%s,r=%016ldbench", user, number++);
    size_t size = ask(ssl, SASL_AUTHENTICATE, 0, 4, first, strlen(first), response);
    said_by_server(response, size, server);
    if (sscanf(server, "r=%1023[^,],s=%1023[^,],i=%d", nonce, salt, &iterations) != 3) refused("no challenge of SCRAM");
    const unsigned char *salted = salted_password(salt, iterations);
    mac(salted, "Client Key", 10, key);
    EVP_Digest(key, HASH, stored, NULL, EVP_sha512(), NULL);
    snprintf(signed_text, sizeof signed_text, "%s,%s,c=biws,r=%s", first + 3, server, nonce);
    mac(stored, signed_text, strlen(signed_text), signature);
    for (int i = 0; i < HASH; i++) key[i] ^= signature[i];
    EVP_EncodeBlock(proof, key, HASH);
    snprintf(last, sizeof last, "c=biws,r=%s,p=%s", nonce, (char *)proof);
    ask(ssl, SASL_AUTHENTICATE, 0, 4, last, strlen(last), response);
}

static void transport_begin(struct transport *t) {
    t->ssl = tls_connect(context, t->fd);
    if (t->ssl == NULL) die_of_tls("connections: a handshake failed");
    log_in(t->ssl);
}

/* As read(2) does it on a socket that does not block. */
static ssize_t transport_read(struct transport *t, void *buffer, size_t size) {
    int got = SSL_read(t->ssl, buffer, (int)size);
    if (got > 0) return got;
    if (SSL_get_error(t->ssl, got) != SSL_ERROR_WANT_READ) return 0;
    errno = EAGAIN;
    return -1;
}

static ssize_t transport_write(struct transport *t, const void *bytes, size_t size) {
    return SSL_write(t->ssl, bytes, (int)size);
}

#endif
