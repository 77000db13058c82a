use crate::table::keyed_hash;

/// The external ports of one protocol and who has them.
///
/// A port is drawn uniformly from those that are free, which makes it hard to guess (RFC 6056) and keeps a freed one
/// unused for long. Drawing, freeing and looking up take constant time however full the range is.
#[derive(Debug)]
pub(crate) struct PortPool<T> {
    first_port: u16,
    owners: Vec<Option<T>>,
    free: Vec<u16>,
    seed: u128,
    draws: u64,
}

impl<T: Copy> PortPool<T> {
    pub(crate) fn new(first: u16, last: u16, seed: u128) -> Self {
        let free: Vec<u16> = (first..=last).collect();
        PortPool { first_port: first, owners: vec![None; free.len()], free, seed, draws: 0 }
    }

    /// A free port, which remains free until [`PortPool::assign_port`]; `None` where there is none.
    pub(crate) fn draw(&mut self) -> Option<u16> {
        let count = self.free.len() as u64;
        if count == 0 {
            return None;
        }
        self.draws += 1;
        let at = (keyed_hash(self.seed, &self.draws) % count) as usize;
        let last = self.free.len() - 1;
        self.free.swap(at, last);
        self.free.last().copied()
    }

    /// Gives the port drawn last to an owner.
    pub(crate) fn assign_port(&mut self, port: u16, owner: T) {
        debug_assert_eq!(self.free.last(), Some(&port), "the port drawn last");
        self.free.pop();
        self.owners[usize::from(port - self.first_port)] = Some(owner);
    }

    pub(crate) fn port_owner(&self, port: u16) -> Option<T> {
        let at = port.checked_sub(self.first_port)?;
        *self.owners.get(usize::from(at))?
    }

    pub(crate) fn release_port(&mut self, port: u16) {
        self.owners[usize::from(port - self.first_port)] = None;
        self.free.push(port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_port_is_given_once_and_again_when_free() {
        let mut ports = PortPool::new(1000, 1099, 7);
        let mut given = BTreeSet::new();
        while let Some(port) = ports.draw() {
            ports.assign_port(port, u32::from(port));
            assert!(
                given.insert(port),
                "RFC 4787 REQ-3: \"MUST NOT have a 'Port assignment' behavior of 'Port overloading'\""
            );
        }
        assert_eq!(given, (1000..=1099).collect());
        assert_eq!((ports.port_owner(1042), ports.port_owner(999), ports.port_owner(1100)), (Some(1042), None, None));
        ports.release_port(1042);
        assert_eq!((ports.port_owner(1042), ports.draw()), (None, Some(1042)));
    }

    #[test]
    fn the_order_depends_on_the_seed_only() {
        let order = |seed| {
            let mut ports = PortPool::new(1024, u16::MAX, seed);
            (0..50)
                .map(|owner| ports.draw().inspect(|port| ports_assign(&mut ports, *port, owner)).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    fn ports_assign(ports: &mut PortPool<u32>, port: u16, owner: u32) {
        ports.assign_port(port, owner);
    }
}
