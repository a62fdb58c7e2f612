// Sockets and addresses of the Internet.
#include "loader.h"
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

// An address begins with its length and its family, of a byte each; AF_INET6 is 30.
struct address { uint8_t bytes, family; uint8_t rest[126]; };
union any { struct sockaddr one; struct sockaddr_storage room; };

static int to_linux_family(int family) { return family == 30 ? AF_INET6 : family; }
static void to_linux(const struct address *from, socklen_t bytes, union any *to) {
    memset(to, 0, sizeof *to);
    memcpy(to, from, bytes < sizeof *to ? bytes : sizeof *to);
    to->one.sa_family = to_linux_family(from->family);
}
static void to_mac(const union any *from, socklen_t bytes, struct address *to, socklen_t *room) {
    struct address made = {0};
    memcpy(&made, from, bytes);
    made.bytes = bytes;
    made.family = from->one.sa_family == AF_INET6 ? 30 : from->one.sa_family;
    memcpy(to, &made, *room < bytes ? *room : bytes);
    *room = bytes;
}

// SO_NOSIGPIPE is not set at first.
static int mac_socket(int family, int kind, int protocol) {
    return answer(socket(to_linux_family(family), kind, protocol));
}
static int mac_bind(int socket, const struct address *address, socklen_t bytes) {
    union any to;
    to_linux(address, bytes, &to);
    return answer(bind(socket, &to.one, bytes));
}
static int mac_connect(int socket, const struct address *address, socklen_t bytes) {
    union any to;
    to_linux(address, bytes, &to);
    return answer(connect(socket, &to.one, bytes));
}
static int mac_listen(int socket, int waiting) { return answer(listen(socket, waiting)); }
static int mac_accept(int socket, struct address *address, socklen_t *room) {
    union any from;
    socklen_t bytes = sizeof from;
    int made = answer(accept(socket, &from.one, &bytes));
    if (made >= 0 && address) to_mac(&from, bytes, address, room);
    return made;
}
static int mac_getsockname(int socket, struct address *address, socklen_t *room) {
    union any from;
    socklen_t bytes = sizeof from;
    int result = answer(getsockname(socket, &from.one, &bytes));
    if (result == 0) to_mac(&from, bytes, address, room);
    return result;
}
static int mac_getpeername(int socket, struct address *address, socklen_t *room) {
    union any from;
    socklen_t bytes = sizeof from;
    int result = answer(getpeername(socket, &from.one, &bytes));
    if (result == 0) to_mac(&from, bytes, address, room);
    return result;
}
static int mac_shutdown(int socket, int how) { return answer(shutdown(socket, how)); }

// MSG_PEEK is 2 and MSG_DONTWAIT 0x80. As a write, it may raise a signal for the process.
static int to_linux_message(int flags) {
    if (flags & ~0x82) fail("a message has a flag that is not known here", NULL);
    return (flags & 2 ? MSG_PEEK : 0) | (flags & 0x80 ? MSG_DONTWAIT : 0);
}
static ssize_t mac_send(int socket, const void *from, size_t bytes, int flags) {
    ssize_t result = answer(send(socket, from, bytes, to_linux_message(flags) | MSG_NOSIGNAL));
    if (result < 0 && errno == EPIPE && !raises_no_signal(socket)) kill(getpid(), SIGPIPE);
    return result;
}
static ssize_t mac_recv(int socket, void *to, size_t bytes, int flags) {
    return answer(recv(socket, to, bytes, to_linux_message(flags)));
}

// Linux's number of an option; false if it is not known here.
static bool find_option(int *level, int *option) {
    static const int of_sockets[][2] = {{4, SO_REUSEADDR}, {8, SO_KEEPALIVE}, {0x80, SO_LINGER}, {0x1005, SO_SNDTIMEO},
                                        {0x1006, SO_RCVTIMEO}, {0x1007, SO_ERROR}, {0x1008, SO_TYPE}};
    static const int of_tcp[][2] = {{1, TCP_NODELAY}, {0x10, TCP_KEEPIDLE}, {0x101, TCP_KEEPINTVL}, {0x102, TCP_KEEPCNT}};
    bool is_tcp = *level == IPPROTO_TCP;
    if (!is_tcp && *level != 0xffff) return false;
    const int(*known)[2] = is_tcp ? of_tcp : of_sockets;
    size_t count = is_tcp ? sizeof of_tcp / sizeof *of_tcp : sizeof of_sockets / sizeof *of_sockets;
    if (!is_tcp) *level = SOL_SOCKET;
    for (size_t i = 0; i < count; i++)
        if (known[i][0] == *option) return *option = known[i][1], true;
    return false;
}
// Seconds, and microseconds in 32 bits.
struct mac_timeval { long seconds; int microseconds; };
static int mac_setsockopt(int socket, int level, int option, const void *from, socklen_t bytes) {
    // SO_NOSIGPIPE
    if (level == 0xffff && option == 0x1022) {
        set_raises_no_signal(socket, *(const int *)from);
        return 0;
    }
    if (!find_option(&level, &option)) fail("setsockopt has an option that is not known here", NULL);
    if (level == SOL_SOCKET && (option == SO_SNDTIMEO || option == SO_RCVTIMEO)) {
        const struct mac_timeval *time = from;
        struct timeval to = {time->seconds, time->microseconds};
        return answer(setsockopt(socket, level, option, &to, sizeof to));
    }
    return answer(setsockopt(socket, level, option, from, bytes));
}
static int mac_getsockopt(int socket, int level, int option, void *to, socklen_t *bytes) {
    if (!find_option(&level, &option)) fail("getsockopt has an option that is not known here", NULL);
    if (level == SOL_SOCKET && (option == SO_SNDTIMEO || option == SO_RCVTIMEO)) {
        struct timeval time;
        socklen_t room = sizeof time;
        int result = answer(getsockopt(socket, level, option, &time, &room));
        *(struct mac_timeval *)to = (struct mac_timeval){time.tv_sec, time.tv_usec};
        return result;
    }
    int result = answer(getsockopt(socket, level, option, to, bytes));
    if (result == 0 && level == SOL_SOCKET && option == SO_ERROR) *(int *)to = to_mac_error(*(int *)to);
    return result;
}

// netdb.h: the name comes before the address. The numbers of errors begin with EAI_AGAIN, 2.
struct mac_addrinfo {
    int flags, family, kind, protocol;
    socklen_t bytes;
    char *name;
    struct address *address;
    struct mac_addrinfo *next;
};
static int mac_getaddrinfo(const char *host, const char *service, const struct mac_addrinfo *hints,
                           struct mac_addrinfo **result) {
    struct addrinfo wanted = {0}, *found;
    if (hints) wanted.ai_family = to_linux_family(hints->family), wanted.ai_socktype = hints->kind;
    int error = getaddrinfo(host, service, &wanted, &found);
    // EAI_NONAME
    if (error) return 8;
    struct mac_addrinfo **end = result;
    for (struct addrinfo *one = found; one; one = one->ai_next) {
        struct mac_addrinfo *made = calloc(1, sizeof *made + sizeof(struct address));
        made->family = one->ai_family == AF_INET6 ? 30 : one->ai_family;
        made->kind = one->ai_socktype, made->protocol = one->ai_protocol, made->bytes = one->ai_addrlen;
        made->address = (void *)(made + 1);
        socklen_t room = sizeof(struct address);
        to_mac((void *)one->ai_addr, one->ai_addrlen, made->address, &room);
        *end = made, end = &made->next;
    }
    *end = NULL;
    freeaddrinfo(found);
    return 0;
}
static void mac_freeaddrinfo(struct mac_addrinfo *list) {
    for (struct mac_addrinfo *next; list; list = next) next = list->next, free(list);
}
static const char *mac_gai_strerror(int error) {
    return error == 8 ? "nodename nor servname provided, or not known" : "Unknown error";
}

const struct function of_sockets[] = {
    OURS(socket), OURS(bind), OURS(connect), OURS(listen), OURS(accept), OURS(getsockname), OURS(getpeername),
    OURS(shutdown), OURS(send), OURS(recv), OURS(setsockopt), OURS(getsockopt), OURS(getaddrinfo), OURS(freeaddrinfo),
    OURS(gai_strerror),
    END,
};
