//! Bytes for many sockets, sent with one system call each.

use std::os::fd::RawFd;

/// Pieces that one call takes; more are for whoever sends them one run after the other. Linux takes 1,024.
pub const VECTORS_MAX: usize = 512;

/// What is to be sent, and to whom.
#[derive(Default)]
pub struct Outgoing {
    vectors: Vec<libc::iovec>,
    /// The socket, and where its vectors end.
    sockets: Vec<(RawFd, usize)>,
}

// SAFETY: the vectors point to bytes that nobody changes and that outlive it, as `push` asks for.
unsafe impl Send for Outgoing {}
// SAFETY: as above.
unsafe impl Sync for Outgoing {}

impl Outgoing {
    /// Nothing, with room for one piece for each of `sockets`.
    pub fn with_capacity(sockets: usize) -> Self {
        Outgoing {
            vectors: Vec::with_capacity(sockets),
            sockets: Vec::with_capacity(sockets),
        }
    }

    /// Send these pieces to a socket, one after the other; none is as good as no call.
    ///
    /// # Safety
    ///
    /// The pieces stay where and as they are for as long as this value is used.
    pub unsafe fn push<'a>(&mut self, fd: RawFd, pieces: impl Iterator<Item = &'a [u8]>) {
        self.vectors.extend(pieces.map(|piece| libc::iovec {
            iov_base: piece.as_ptr().cast_mut().cast(),
            iov_len: piece.len(),
        }));
        self.sockets.push((fd, self.vectors.len()));
    }
}

/// Send to each socket once. For each, how many bytes it took, and whether that was all; a socket that is full or
/// broken took none, and whoever sends to it next learns which.
pub fn send_all(outgoing: &Outgoing) -> Vec<(usize, bool)> {
    let mut begin = 0;
    outgoing
        .sockets
        .iter()
        .map(|&(fd, end)| {
            let vectors = &outgoing.vectors[begin..end];
            begin = end;
            let size: usize = vectors.iter().map(|vector| vector.iov_len).sum();
            let sent = if size == 0 { 0 } else { send(fd, vectors) };
            (sent, sent == size)
        })
        .collect()
}

#[cfg(target_os = "linux")]
const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
#[cfg(not(target_os = "linux"))]
const FLAGS: i32 = libc::MSG_DONTWAIT;

fn send(fd: RawFd, vectors: &[libc::iovec]) -> usize {
    // SAFETY: the vectors describe bytes that live through the call, which only reads them.
    let sent = unsafe {
        if let [one] = vectors {
            libc::send(fd, one.iov_base, one.iov_len, FLAGS)
        } else {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = vectors.as_ptr().cast_mut();
            message.msg_iovlen = vectors.len() as _;
            libc::sendmsg(fd, &message, FLAGS)
        }
    };
    usize::try_from(sent).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn each_socket_gets_its_own_and_is_said_to_have_taken_what_it_took() {
        let (first, mut first_peer) = UnixStream::pair().unwrap();
        let (second, mut second_peer) = UnixStream::pair().unwrap();
        let (broken, broken_peer) = UnixStream::pair().unwrap();
        drop(broken_peer);
        let large = vec![9; 4 << 20];
        let mut outgoing = Outgoing::with_capacity(4);
        // SAFETY: all pieces outlive `outgoing`.
        unsafe {
            outgoing.push(first.as_raw_fd(), [&b"one"[..], b"", b" two"].into_iter());
            outgoing.push(broken.as_raw_fd(), [&b"lost"[..]].into_iter());
            outgoing.push(second.as_raw_fd(), [&large[..]].into_iter());
            outgoing.push(first.as_raw_fd(), std::iter::empty());
        }
        let sent = send_all(&outgoing);
        assert_eq!(
            (sent[0], sent[1], sent[3]),
            ((7, true), (0, false), (0, true))
        );
        assert!(sent[2].0 > 0 && sent[2].0 < large.len() && !sent[2].1);
        let mut read = [0; 7];
        first_peer.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"one two");
        let mut read = vec![0; sent[2].0];
        second_peer.read_exact(&mut read).unwrap();
        assert_eq!(read, large[..sent[2].0]);
    }
}
