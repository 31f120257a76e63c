//! Which sockets are ready, and what those hold that are received from at once.
//!
//! ```text
//! epoll says      7: readable   3: readable   9: readable, writable   4: readable
//! watched for        RECEIVE       RECEIVE       readable, writable      RECEIVE
//!
//! window   | kept from before | bytes of 7 | bytes of 3 |     too little room for a share      |
//! ready                                                    9: readable, writable   4: readable
//! ```
//!
//! Whoever is ready and not received from is told so and looks at the socket itself: because it is not watched for
//! RECEIVE, because there is no room left, or because the socket is at its end. So nothing is decided here.
//!
//! Of a socket that is received from, epoll is asked for edges: who has just been emptied need not be looked at a second
//! time to see that, which with a thousand of them is a thirtieth of a request. Whatever is not received to its end is
//! asked for anew, so what callers see is a level all the same.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::system;

/// There is something to receive, or the peer is gone.
pub const READABLE: u8 = 1;
/// There is room to send, or the peer is gone.
pub const WRITABLE: u8 = 2;
/// What there is to receive is to be received in `turn`.
pub const RECEIVE: u8 = 4;

/// Sockets that one turn looks at; the others are looked at in the next, for epoll goes round.
pub const EVENTS_MAX: usize = 128;

/// What was received from one socket: where it lies in the window.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// The socket.
    pub fd: RawFd,
    /// Where its bytes begin.
    pub begin: usize,
    /// Where they end, behind the last.
    pub end: usize,
}

/// A socket that somebody has to look at.
#[derive(Debug, PartialEq, Eq)]
pub struct Ready {
    /// The socket.
    pub fd: RawFd,
    /// READABLE, WRITABLE or both, of those it is watched for.
    pub events: u8,
}

/// A socket that cannot be received from any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Lost {
    /// The socket.
    pub fd: RawFd,
    /// The system's word for why. It is said once: who receives again is told of an end in order.
    pub errno: i32,
}

/// What one turn found.
#[derive(Debug, Default)]
pub struct Turn {
    /// The bytes that arrived, in the order in which they lie in the window.
    pub received: Vec<Received>,
    /// Those that were not received from, or have room to send.
    pub ready: Vec<Ready>,
    /// Those that failed to be received from.
    pub lost: Vec<Lost>,
}

/// What epoll is asked for on behalf of a socket that is watched for these events: with RECEIVE, edges.
fn asked(watched: u8) -> u8 {
    if watched == READABLE | RECEIVE {
        watched
    } else {
        watched & !RECEIVE
    }
}

/// An epoll instance, and what each socket is watched for.
pub struct Poll {
    epoll: OwnedFd,
    /// By file descriptor; 0 for those that are not watched.
    watched: Vec<u8>,
}

impl Poll {
    /// Watches nothing yet. ENOSYS where the system has no epoll.
    pub fn new() -> std::io::Result<Self> {
        let fd = system::epoll_create()?;
        // SAFETY: the new descriptor has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Poll {
            epoll,
            watched: Vec::new(),
        })
    }

    /// Readable when `turn` would find something.
    pub fn fileno(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Watch a socket for these events, and for no others any more; 0 comes before it is closed. RECEIVE counts only
    /// together with READABLE.
    pub fn watch(&mut self, fd: RawFd, events: u8) -> std::io::Result<()> {
        let index = fd as usize;
        let before = self.watched.get(index).copied().unwrap_or(0);
        let events = if events & READABLE == 0 {
            events & WRITABLE
        } else {
            events
        };
        if asked(before) != asked(events) {
            system::epoll_change(self.epoll.as_raw_fd(), fd, asked(before), asked(events))?;
        }
        if index >= self.watched.len() {
            self.watched.resize(index + 1, 0);
        }
        self.watched[index] = events;
        Ok(())
    }

    /// Look once, without waiting: receive up to `share` bytes from each socket that is ready and watched for it, into
    /// the window from `position` on, and say who else is ready.
    pub fn turn(
        &mut self,
        window: Option<&mut [u8]>,
        position: usize,
        share: usize,
    ) -> std::io::Result<Turn> {
        let epoll = self.epoll.as_raw_fd();
        let mut events = [system::NO_EVENT; EVENTS_MAX];
        let count = system::epoll_look(epoll, &mut events)?;
        let mut turn = Turn::default();
        let mut space = window
            .and_then(|window| window.get_mut(position..))
            .unwrap_or_default();
        let mut begin = position;
        for event in &events[..count] {
            let fd = event.u64 as RawFd;
            let watched = self.watched.get(fd as usize).copied().unwrap_or(0);
            let mut events = system::readiness(event.events) & watched;
            // Nor is there anything where an urgent byte is all: to ask anew would be to be told of it without end.
            let mut is_emptied = events & READABLE == 0;
            if events & READABLE != 0
                && watched & RECEIVE != 0
                && (1..=space.len()).contains(&share)
            {
                match system::receive(fd, &mut space[..share]) {
                    Ok(0) => {}
                    Ok(count) => {
                        let end = begin + count;
                        turn.received.push(Received { fd, begin, end });
                        begin = end;
                        space = &mut space[count..];
                        events &= !READABLE;
                        // Fewer bytes than there was room for are all there are, as epoll(7) says; but an end behind
                        // them was told together with them, and so was an urgent byte.
                        is_emptied = count < share && !system::may_hold_more(event.events);
                    }
                    Err(libc::EAGAIN) => (events, is_emptied) = (events & !READABLE, true),
                    Err(libc::EINTR) => events &= !READABLE,
                    Err(errno) => {
                        turn.lost.push(Lost { fd, errno });
                        events = 0;
                    }
                }
            }
            if asked(watched) & RECEIVE != 0
                && !is_emptied
                && let Err(error) = system::epoll_change(epoll, fd, watched, watched)
            {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                turn.lost.push(Lost { fd, errno });
                continue;
            }
            if events != 0 {
                turn.ready.push(Ready { fd, events });
            }
        }
        Ok(turn)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (ours, theirs)
    }

    #[test]
    fn what_all_hold_lies_in_the_window_one_after_the_other() {
        let mut poll = Poll::new().unwrap();
        let mut pairs: Vec<_> = (0..5).map(|_| pair()).collect();
        for (index, (ours, theirs)) in pairs.iter_mut().enumerate() {
            poll.watch(ours.as_raw_fd(), READABLE | RECEIVE).unwrap();
            theirs.write_all(&vec![index as u8; 10 + index]).unwrap();
        }
        let mut window = [0xff; 1000];
        let turn = poll.turn(Some(&mut window), 100, 100).unwrap();
        assert_eq!(turn.ready, []);
        let mut begin = 100;
        let mut seen = Vec::new();
        for each in &turn.received {
            assert_eq!(each.begin, begin);
            begin = each.end;
            let bytes = &window[each.begin..each.end];
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            assert_eq!(bytes.len(), 10 + bytes[0] as usize);
            assert_eq!(each.fd, pairs[bytes[0] as usize].0.as_raw_fd());
            seen.push(bytes[0]);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert!(window[begin..].iter().all(|byte| *byte == 0xff));
        assert!(
            poll.turn(Some(&mut window), 0, 100)
                .unwrap()
                .received
                .is_empty()
        );
    }

    #[test]
    fn who_finds_no_room_or_does_not_want_it_is_told_to_look() {
        let mut poll = Poll::new().unwrap();
        let (first, mut first_peer) = pair();
        let (second, mut second_peer) = pair();
        poll.watch(first.as_raw_fd(), READABLE | RECEIVE).unwrap();
        poll.watch(second.as_raw_fd(), READABLE | WRITABLE).unwrap();
        first_peer.write_all(b"x").unwrap();
        second_peer.write_all(b"y").unwrap();
        let mut window = [0; 64];
        for window in [None, Some(&mut window[..63])] {
            let mut turn = poll.turn(window, 0, 64).unwrap();
            assert_eq!(turn.received, []);
            turn.ready.sort_by_key(|ready| ready.fd);
            let expected = [(&first, READABLE), (&second, READABLE | WRITABLE)];
            let mut expected = expected.map(|(socket, events)| Ready {
                fd: socket.as_raw_fd(),
                events,
            });
            expected.sort_by_key(|ready| ready.fd);
            assert_eq!(turn.ready, expected);
        }
        let turn = poll.turn(Some(&mut window), 0, 64).unwrap();
        assert_eq!(turn.received.len(), 1);
        poll.watch(second.as_raw_fd(), 0).unwrap();
        let turn = poll.turn(Some(&mut window), 0, 64).unwrap();
        assert!(turn.received.is_empty() && turn.ready.is_empty());
    }

    #[test]
    fn the_end_of_a_peer_is_for_its_owner_to_find() {
        let mut poll = Poll::new().unwrap();
        let (ours, mut theirs) = pair();
        poll.watch(ours.as_raw_fd(), READABLE | RECEIVE).unwrap();
        theirs.write_all(b"last words").unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        let mut window = [0; 64];
        let turn = poll.turn(Some(&mut window), 0, 64).unwrap();
        assert_eq!(&window[..turn.received[0].end], b"last words");
        for _ in 0..2 {
            let turn = poll.turn(Some(&mut window), 0, 64).unwrap();
            assert!(turn.received.is_empty());
            let fd = ours.as_raw_fd();
            assert_eq!(
                turn.ready,
                [Ready {
                    fd,
                    events: READABLE
                }]
            );
        }
        let mut rest = [0; 1];
        assert_eq!((&ours).read(&mut rest).unwrap(), 0);
    }

    #[test]
    fn what_one_turn_leaves_is_found_by_the_next() {
        let mut poll = Poll::new().unwrap();
        let (ours, mut theirs) = pair();
        let mut window = [0; 64];
        poll.watch(ours.as_raw_fd(), READABLE | RECEIVE).unwrap();
        theirs.write_all(&[1; 24]).unwrap();
        for _ in 0..3 {
            let turn = poll.turn(Some(&mut window), 0, 8).unwrap();
            assert_eq!(turn.received[0].end, 8);
        }
        let turn = poll.turn(Some(&mut window), 0, 8).unwrap();
        assert!(turn.received.is_empty() && turn.ready.is_empty());
        theirs.write_all(b"x").unwrap();
        for receives in [false, true, false, true] {
            let events = if receives {
                READABLE | RECEIVE
            } else {
                READABLE
            };
            poll.watch(ours.as_raw_fd(), events).unwrap();
            for _ in 0..2 {
                let turn = poll.turn(None, 0, 8).unwrap();
                assert_eq!(turn.ready[0].events, READABLE);
            }
        }
        let turn = poll.turn(Some(&mut window), 0, 8).unwrap();
        assert_eq!(turn.received[0].end, 1);
    }

    #[test]
    fn who_is_lost_is_at_its_end_from_then_on() {
        let mut poll = Poll::new().unwrap();
        let (ours, theirs) = pair();
        let fd = ours.as_raw_fd();
        poll.watch(fd, READABLE | RECEIVE).unwrap();
        (&ours).write_all(b"never read").unwrap();
        drop(theirs);
        let mut window = [0; 8];
        let turn = poll.turn(Some(&mut window), 0, 8).unwrap();
        let errno = libc::ECONNRESET;
        assert_eq!(turn.lost, [Lost { fd, errno }]);
        for _ in 0..2 {
            let turn = poll.turn(Some(&mut window), 0, 8).unwrap();
            assert_eq!(turn.ready[0].events, READABLE);
        }
    }

    #[test]
    fn what_comes_behind_an_urgent_byte_is_received_and_the_byte_alone_is_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        let urgent = |peer: &TcpStream| {
            // SAFETY: one byte is sent from a place that has it.
            let sent =
                unsafe { libc::send(peer.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) };
            assert_eq!(sent, 1);
        };
        let mut poll = Poll::new().unwrap();
        poll.watch(ours.as_raw_fd(), READABLE | RECEIVE).unwrap();
        theirs.write_all(b"before").unwrap();
        urgent(&theirs);
        theirs.write_all(b"behind").unwrap();
        let mut window = [0; 64];
        let mut position = 0;
        while position < 12 {
            let turn = poll.turn(Some(&mut window), position, 32).unwrap();
            assert_eq!((turn.ready, turn.lost), (vec![], vec![]));
            position = turn.received.last().map_or(position, |each| each.end);
        }
        assert_eq!(&window[..12], b"beforebehind");
        urgent(&theirs);
        // The loop is told of it at most a few times, and then sleeps until there is more.
        let mut waited = libc::pollfd {
            fd: poll.fileno(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut is_ready = |timeout_ms: i32| {
            // SAFETY: one entry, which lives through the call.
            unsafe { libc::poll(&mut waited, 1, timeout_ms) == 1 }
        };
        assert!(is_ready(-1));
        for _ in 0..3 {
            let turn = poll.turn(Some(&mut window), 0, 32).unwrap();
            assert!(turn.received.is_empty() && turn.ready.is_empty() && turn.lost.is_empty());
        }
        assert!(!is_ready(0));
        theirs.write_all(b"x").unwrap();
        assert!(is_ready(-1));
        let turn = poll.turn(Some(&mut window), 0, 32).unwrap();
        assert_eq!(&window[..turn.received[0].end], b"x");
    }

    #[test]
    fn more_sockets_than_one_turn_looks_at_come_round() {
        let mut poll = Poll::new().unwrap();
        let mut pairs: Vec<_> = (0..EVENTS_MAX + 40).map(|_| pair()).collect();
        for (ours, theirs) in &mut pairs {
            poll.watch(ours.as_raw_fd(), READABLE | RECEIVE).unwrap();
            theirs.write_all(&[7; 40]).unwrap();
        }
        let mut window = [0; EVENTS_MAX * 8];
        let mut received = vec![0; pairs.len()];
        for _ in 0..2 {
            for each in poll.turn(Some(&mut window), 0, 8).unwrap().received {
                let index = pairs.iter().position(|pair| pair.0.as_raw_fd() == each.fd);
                received[index.unwrap()] += each.end - each.begin;
            }
        }
        assert!(received.iter().all(|count| *count > 0));
    }
}
