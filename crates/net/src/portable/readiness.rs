//! Waiting for sockets, up to an instant of [`clock::monotonic`].

pub use crate::poll::{Event, wait_any_readable, wait_any_writable, wait_readable, wait_writable};

use crate::clock;
use crate::poll::wait_ready;
use kumade_units::Time;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd};
use socket2::SockRef;
use std::cell::{Cell, RefCell};
use std::io;
use std::mem::MaybeUninit;
use std::net::TcpStream;

/// So many sockets are looked at one by one, each half as often as that before it, and all of them as often as the last of these: to look at one takes a
/// microsecond, or 20 where each call passes another process, as with Wine 8, and to look at 120 ten times as long.
const NEXT_SOCKETS: u32 = 7;
/// Sockets that others have overtaken are looked at after so many times as many of those that follow: they may have lost their packets. With 4,
/// none is seen later than the last of [`NEXT_SOCKETS`] in the test of this file with lost packets and others that overtake each other, of which nine in ten are
/// seen within two looks; a bound of the code, no figure of a network.
const LATER_RATIO: usize = 4;

/// Whether the peer has closed the connection, or it has failed, as far as this host knows: what is unread hides it. Does not wait.
///
/// # Errors
/// Where the system refuses to look.
pub fn is_closed(stream: &TcpStream) -> io::Result<bool> {
    if !wait_readable(stream, Time::ZERO)? {
        return Ok(false);
    }
    Ok(match stream.peek(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => !is_temporary(&error),
    })
}

/// Whether a connection that does not block can be read, has ended or has failed.
fn has_input(socket: BorrowedFd<'_>) -> io::Result<bool> {
    match SockRef::from(&socket).peek(&mut [MaybeUninit::uninit()]) {
        Err(error) if is_temporary(&error) => Ok(false),
        looked => looked.map(|_| true),
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[derive(Debug, Clone, Copy)]
struct Awaited {
    number: u32,
    flags: PollFlags,
}

/// Many sockets, waited for together; each keeps reporting until it is dealt with or removed.
#[derive(Debug, Default)]
pub struct SocketSet {
    /// In the order in which they are looked at: trains go from one socket to the next, so what has been reported comes last. Nor does one wait
    /// for others that are always ready.
    awaited: RefCell<Vec<Awaited>>,
    looks: Cell<u32>,
}

impl SocketSet {
    /// A wait reports no more events than this.
    pub const MAX_EVENTS: usize = 64;

    /// An empty set.
    ///
    /// # Errors
    /// None.
    pub fn new() -> io::Result<Self> {
        Ok(SocketSet::default())
    }

    /// Reports the connection `socket`, which does not block from now on, under `number` when it can be read.
    ///
    /// # Errors
    /// Where the system has it block.
    pub fn add_reader(&self, socket: &impl AsFd, number: u32) -> io::Result<()> {
        SockRef::from(&socket.as_fd()).set_nonblocking(true)?;
        self.add(number, PollFlags::IN)
    }

    /// Reports `socket` under `number` when it can be written: a connecting one when it is open or has failed.
    ///
    /// # Errors
    /// None.
    pub fn add_writer(&self, _socket: &impl AsFd, number: u32) -> io::Result<()> {
        self.add(number, PollFlags::OUT)
    }

    fn add(&self, number: u32, flags: PollFlags) -> io::Result<()> {
        let mut awaited = self.awaited.borrow_mut();
        // Of one that was removed, no wait may have taken note yet.
        awaited.retain(|entry| entry.number != number);
        awaited.push(Awaited { number, flags });
        Ok(())
    }

    /// Forgets `socket`. Nothing is to be done for it: whoever waits does not give it for its number any more, or another one.
    ///
    /// # Errors
    /// None.
    pub fn remove(&self, _socket: &impl AsFd) -> io::Result<()> {
        Ok(())
    }

    /// Waits until something happens or `deadline` has come, and fills `events`. `socket` gives the one with this number, unless that is no longer in
    /// the set. Once `deadline` has come, looks at one reader only, another one each time: who waits for a packet is woken late, so
    /// who reads packets as they come asks again and again.
    ///
    /// # Errors
    /// Where the system refuses to wait.
    pub fn wait_open<'s>(
        &self,
        socket: impl Fn(u32) -> Option<BorrowedFd<'s>>,
        events: &mut Vec<Event>,
        deadline: Time,
    ) -> io::Result<()> {
        events.clear();
        let mut awaited = self.awaited.borrow_mut();
        let is_over = clock::monotonic() >= deadline;
        if !is_over || !self.look(&mut awaited, &socket, events) {
            awaited.retain(|entry| socket(entry.number).is_some());
            wait_for_all(&awaited, &socket, events, deadline)?;
            // While the others were looked at, more may have come on the first ones: read later, it would seem to be overtaken.
            let last = events.last().and_then(|last| awaited.iter().position(|entry| entry.number == last.number));
            if let Some(last) = last.filter(|last| is_over && events.len() <= *last) {
                events.clear();
                wait_for_all(&awaited[..=last], &socket, events, deadline)?;
            }
        }
        if !events.is_empty() {
            put_last(&mut awaited, events);
        }
        Ok(())
    }

    /// Looks at the reader whose turn it is, if it is that of any; false where it is the turn of all, or of a writer.
    fn look<'s>(
        &self,
        awaited: &mut Vec<Awaited>,
        socket: impl Fn(u32) -> Option<BorrowedFd<'s>>,
        events: &mut Vec<Event>,
    ) -> bool {
        let looks = self.looks.get().wrapping_add(1);
        self.looks.set(looks);
        let place = looks.trailing_zeros();
        if place >= NEXT_SOCKETS {
            return false;
        }
        let place = place as usize;
        let Some(Awaited { number, flags }) = awaited.get(place).copied() else { return true };
        if flags != PollFlags::IN {
            return false;
        }
        let found = |entry: &Awaited| Some((entry.number, has_input(socket(entry.number)?)));
        let Some((_, is_found)) = found(&awaited[place]) else {
            awaited.remove(place);
            return true;
        };
        if !matches!(is_found, Ok(false)) {
            // What has come on those before it meanwhile came earlier: read later, it would seem to be overtaken.
            let earlier = awaited[..place].iter().filter(|entry| entry.flags == PollFlags::IN).filter_map(found);
            let ready = earlier.filter(|(_, found)| !matches!(found, Ok(false))).chain([(number, is_found)]);
            events.extend(ready.map(|(number, found)| Event {
                number,
                is_readable: true,
                is_writable: false,
                has_error: found.is_err(),
            }));
        }
        true
    }
}

fn wait_for_all<'s>(
    awaited: &[Awaited],
    socket: impl Fn(u32) -> Option<BorrowedFd<'s>>,
    events: &mut Vec<Event>,
    deadline: Time,
) -> io::Result<()> {
    let open = awaited.iter().filter_map(|entry| Some((entry.number, entry.flags, socket(entry.number)?)));
    let (numbers, mut polled): (Vec<_>, Vec<_>) =
        open.map(|(number, flags, socket)| (number, PollFd::from_borrowed_fd(socket, flags))).unzip();
    wait_ready(&mut polled, deadline)?;
    let failed = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    let ready = polled.iter().zip(numbers).filter(|(polled, _)| !polled.revents().is_empty());
    events.extend(ready.take(SocketSet::MAX_EVENTS).map(|(polled, number)| Event {
        number,
        is_readable: polled.revents().intersects(PollFlags::IN | failed),
        is_writable: polled.revents().intersects(PollFlags::OUT | failed),
        has_error: polled.revents().intersects(failed),
    }));
    Ok(())
}

/// Puts those that are reported last, and those that they have overtaken behind the next ones.
fn put_last(awaited: &mut [Awaited], events: &[Event]) {
    let is_reported = |entry: &Awaited| events.iter().any(|event| event.number == entry.number);
    let end = awaited.iter().rposition(is_reported).map_or(0, |place| place + 1);
    let overtaken = awaited[..end].iter().filter(|entry| !is_reported(entry)).count();
    // Keeps their order among those that are reported, and among the others.
    awaited.sort_by_key(is_reported);
    let others = awaited.partition_point(|entry| !is_reported(entry));
    awaited[..others.min(overtaken * (1 + LATER_RATIO))].rotate_left(overtaken);
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::Span;
    use std::collections::BTreeSet;
    use std::io::Write;
    use std::net::TcpListener;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0)
    }

    fn soon() -> Time {
        clock::monotonic() + Span::from_secs(60)
    }

    #[test]
    fn a_set_reports_those_that_are_ready_until_they_are_removed() {
        let (set, mut events) = (SocketSet::new().unwrap(), Vec::new());
        let pairs: Vec<_> = (0..100).map(|_| pair()).collect();
        for (number, (near, _)) in (0..).zip(&pairs) {
            set.add_reader(near, number).unwrap();
        }
        let socket = |number| Some(pairs[number as usize].0.as_fd());
        set.wait_open(socket, &mut events, Time::ZERO).unwrap();
        assert!(events.is_empty());
        (&pairs[7].1).write_all(b"x").unwrap();
        set.wait_open(socket, &mut events, soon()).unwrap();
        assert_eq!(events, [Event { number: 7, is_readable: true, is_writable: false, has_error: false }]);
        set.remove(&pairs[7].0).unwrap();
        let socket = |number| (number != 7).then(|| pairs[number as usize].0.as_fd());
        set.wait_open(socket, &mut events, clock::monotonic() + Span::from_millis(1)).unwrap();
        assert!(events.is_empty());
        // No more than there is room for.
        for (_, far) in &pairs {
            { far }.write_all(b"x").unwrap();
        }
        let readable: Vec<_> =
            pairs.iter().enumerate().filter(|(number, _)| *number != 7).map(|(_, (near, _))| near).collect();
        assert!(readable.iter().all(|near| wait_readable(*near, soon()).unwrap()));
        let mut seen = BTreeSet::new();
        for _ in 0..2 {
            set.wait_open(socket, &mut events, soon()).unwrap();
            assert_eq!(events.len(), SocketSet::MAX_EVENTS);
            seen.extend(events.iter().map(|event| event.number));
        }
        assert_eq!(seen.len(), readable.len());
        let empty = SocketSet::new().unwrap();
        empty.wait_open(socket, &mut events, clock::monotonic()).unwrap();
        assert!(events.is_empty());
    }

    #[test]
    fn packets_are_seen_at_once_whatever_has_come_on_other_sockets_and_whatever_was_lost() {
        let (set, mut events) = (SocketSet::new().unwrap(), Vec::new());
        let pairs: Vec<_> = (0..30).map(|_| pair()).collect();
        let socket = |number| Some(pairs[number as usize].0.as_fd());
        for (number, (near, _)) in (0..).zip(&pairs) {
            set.add_reader(near, number).unwrap();
        }
        // Two on each; of the first ones, and of some in between, all are lost, and some overtake each other.
        let arriving: Vec<u32> = (0..2).flat_map(|_| (9..20).chain([26, 25, 27, 29, 28])).collect();
        let (mut following, mut seen_at_once) = (0, 0);
        for (place, number) in arriving.iter().enumerate() {
            let (near, far) = &pairs[*number as usize];
            { far }.write_all(b"x").unwrap();
            assert!(wait_readable(near, soon()).unwrap());
            let looks = (1..).find(|_| {
                set.wait_open(socket, &mut events, Time::ZERO).unwrap();
                !events.is_empty()
            });
            assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [*number]);
            let is_next = place > 0 && arriving[place - 1] + 1 == *number;
            following += usize::from(is_next);
            seen_at_once += usize::from(is_next && looks.unwrap() <= 2);
            assert!(looks.unwrap() <= 1 << NEXT_SOCKETS, "{number}: {looks:?}");
            assert_eq!(std::io::Read::read(&mut &*near, &mut [0; 9]).unwrap(), 1);
        }
        assert!(seen_at_once * 10 >= following * 9, "{seen_at_once} of {following}");
    }

    /// Of several that were there, every second one was read before that which had come before it.
    #[test]
    fn what_waits_is_reported_in_the_order_in_which_it_was_sent() {
        let (set, mut events, mut order) = (SocketSet::new().unwrap(), Vec::new(), Vec::new());
        let pairs: Vec<_> = (0..30).map(|_| pair()).collect();
        for (number, (near, far)) in (0..).zip(&pairs) {
            set.add_reader(near, number).unwrap();
            { far }.write_all(b"x").unwrap();
        }
        assert!(pairs.iter().all(|(near, _)| wait_readable(near, soon()).unwrap()));
        for _ in 0..1 << NEXT_SOCKETS {
            set.wait_open(|number| Some(pairs[number as usize].0.as_fd()), &mut events, Time::ZERO).unwrap();
            for event in &events {
                assert_eq!(std::io::Read::read(&mut &pairs[event.number as usize].0, &mut [0; 9]).unwrap(), 1);
                order.push(event.number);
            }
        }
        assert_eq!(order, (0..30).collect::<Vec<_>>());
    }

    #[test]
    fn who_does_not_wait_finds_what_has_come_and_what_is_over_by_asking_again() {
        let (set, mut events) = (SocketSet::new().unwrap(), Vec::new());
        let [(near, far), (writable, _other)] = [pair(), pair()];
        set.add_reader(&near, 3).unwrap();
        let socket = |number| if number == 3 { Some(near.as_fd()) } else { Some(writable.as_fd()) };
        let mut ask = |is_awaited: &dyn Fn(&Event) -> bool| {
            let found = |events: &Vec<Event>| events.iter().any(is_awaited);
            (0..1 << NEXT_SOCKETS).any(|_| {
                set.wait_open(socket, &mut events, Time::ZERO).unwrap();
                found(&events)
            })
        };
        assert!(!ask(&|_| true));
        { &far }.write_all(b"x").unwrap();
        assert!(wait_readable(&near, soon()).unwrap() && ask(&|event| event.number == 3 && event.is_readable));
        drop((far, std::io::Read::read(&mut &near, &mut [0; 9])));
        assert!(wait_readable(&near, soon()).unwrap() && ask(&|event| event.is_readable));
        set.add_writer(&writable, 4).unwrap();
        assert!(ask(&|event| event.number == 4 && event.is_writable && !event.is_readable));
        // What is not in the set any more is forgotten.
        let mut events = Vec::new();
        (0..1 << NEXT_SOCKETS).for_each(|_| set.wait_open(|_| None, &mut events, Time::ZERO).unwrap());
        assert!(events.is_empty() && set.awaited.borrow().is_empty());
        set.wait_open(|_| None, &mut events, clock::monotonic() + Span::from_millis(1)).unwrap();
        assert!(events.is_empty());
    }

    #[test]
    fn what_the_peer_has_closed_is_closed_once_it_is_read() {
        let (near, far) = pair();
        assert!(!is_closed(&near).unwrap());
        { &far }.write_all(b"x").unwrap();
        assert!(wait_readable(&near, soon()).unwrap() && !is_closed(&near).unwrap());
        drop(far);
        assert_eq!(std::io::Read::read(&mut &near, &mut [0; 9]).unwrap(), 1);
        assert!(wait_readable(&near, soon()).unwrap() && is_closed(&near).unwrap());
    }
}
