//! Questions of many senders, and answers to them, with few system calls.

use crate::datagram::Datagram;
use crate::messages::{MAX_SENT_DATAGRAMS, MessageBatch, OutgoingDatagram, send};
use kumade_packet::DsField;
use std::io;
use std::net::UdpSocket;

/// Questions that one system call receives.
const MAX_QUESTIONS: usize = 64;

/// Answers questions, each in the memory where it is.
#[derive(Debug)]
pub struct Responder {
    memory: Box<[u8]>,
    max_question_bytes: usize,
}

impl Responder {
    /// For questions of up to so many bytes; longer ones are cut off.
    pub fn new(longest: usize) -> Self {
        Responder { memory: vec![0; MAX_QUESTIONS * longest].into(), max_question_bytes: longest }
    }

    /// Takes what waits on a [prepared](crate::datagram::prepare_socket) socket, as far as one system call does, up to 64, and gives
    /// each to `answer`, which writes the answer in its place and returns DSCP and ECN that it is to have, or none for no answer. An
    /// answer leaves at once, or after up to seven others that are made meanwhile. Returns how many questions there were.
    ///
    /// # Errors
    /// `WouldBlock` where nothing waits, else what the socket reports. An answer that it does not take is lost.
    pub fn respond(
        &mut self,
        socket: &UdpSocket,
        mut answer: impl FnMut(&Datagram, &mut [u8]) -> Option<DsField>,
    ) -> io::Result<usize> {
        let mut messages = MessageBatch::<MAX_QUESTIONS>::default();
        let count = messages.receive(socket, &mut self.memory, self.max_question_bytes)?;
        let mut answers = Vec::with_capacity(MAX_SENT_DATAGRAMS);
        for (index, memory) in self.memory.chunks_mut(self.max_question_bytes.max(1)).enumerate().take(count) {
            let Some(question) = Datagram::read(&messages, index) else { continue };
            let payload = &mut memory[..question.len];
            if let Some(ds_field) = answer(&question, payload) {
                answers.push(question.reply_with(payload, ds_field));
            }
            if answers.len() == MAX_SENT_DATAGRAMS {
                send_all(socket, &answers);
                answers.clear();
            }
        }
        send_all(socket, &answers);
        Ok(count)
    }
}

/// Those that the system refuses are left out.
fn send_all(socket: &UdpSocket, mut answers: &[OutgoingDatagram]) {
    while let Some(first) = answers.first() {
        let dealt_with = send(socket, answers).unwrap_or_else(|error| {
            tracing::debug!("cannot answer {}: {error}", first.destination);
            1
        });
        answers = &answers[dealt_with..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock, datagram, readiness};
    use kumade_units::Span;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    fn socket(address: &str) -> UdpSocket {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        datagram::prepare_socket(&socket).unwrap();
        socket
    }

    /// Until something has come.
    fn wait(socket: &UdpSocket) {
        assert!(readiness::wait_readable(socket, clock::monotonic() + Span::from_secs(60)).unwrap());
    }

    /// More than one system call takes in either direction.
    #[test]
    fn each_question_has_its_own_answer_and_those_without_one_hear_nothing() {
        let (near, far) = (socket("127.0.0.1:0"), socket("0.0.0.0:0"));
        let there = |host: u8| SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), far.local_addr().unwrap().port()));
        for number in 0..100 {
            near.send_to(&[number, 9, 9], there(number + 1)).unwrap();
        }
        let mut responder = Responder::new(3);
        let mut asked = 0;
        while asked < 100 {
            wait(&far);
            asked += responder
                .respond(&far, |question, payload| {
                    assert_eq!((question.destination, question.ttl), (Some(there(payload[0] + 1).ip()), Some(255)));
                    payload[1] += payload[0];
                    payload[0].is_multiple_of(3).then(DsField::default)
                })
                .unwrap();
        }
        assert_eq!(
            responder.respond(&far, |_, _| Some(DsField::default())).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let mut payload = [0; 10];
        for number in (0..100).step_by(3) {
            assert_eq!(near.recv_from(&mut payload).unwrap(), (3, there(number + 1)));
            assert_eq!(payload[..3], [number, 9 + number, 9]);
        }
        assert_eq!(datagram::receive(&near, &mut payload).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn an_answer_that_the_system_refuses_costs_no_other() {
        let (near, far) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let to = near.local_addr().unwrap();
        let answer = |to: SocketAddr| OutgoingDatagram {
            destination: to,
            source: None,
            ds_field: DsField::default(),
            payload: &[1],
        };
        // Nobody may send to a broadcast address without asking for it.
        let broadcast = answer((Ipv4Addr::BROADCAST, 9).into());
        send_all(&far, &[answer(to), broadcast, broadcast, answer(to)]);
        for _ in 0..2 {
            assert_eq!(near.recv_from(&mut [0; 10]).unwrap().0, 1);
        }
    }

    #[test]
    fn what_is_too_long_is_told() {
        let socket = socket("127.0.0.1:0");
        for len in [20, 10] {
            socket.send_to(&vec![1; len], socket.local_addr().unwrap()).unwrap();
        }
        let mut found = Vec::new();
        let mut responder = Responder::new(10);
        while found.len() < 2 {
            wait(&socket);
            let read = |question: &Datagram, _: &mut [u8]| {
                found.push((question.len, question.is_truncated));
                None
            };
            responder.respond(&socket, read).unwrap();
        }
        assert_eq!(found, [(10, true), (10, false)]);
    }
}
