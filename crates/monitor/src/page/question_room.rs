//! Whose question to the archive is answered next.

use kumade_daemon::Network;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many questions are answered at a time; of one network, no more wait for a place than there are places: however many it asks, those
/// of others come soon.
#[derive(Debug)]
pub(super) struct QuestionRoom {
    places: usize,
    all: Arc<Semaphore>,
    /// Of networks that ask at present.
    networks: Mutex<BTreeMap<Network, Weak<Semaphore>>>,
}

/// A question may be answered as long as there is this.
pub(super) type QuestionPlace = [Option<OwnedSemaphorePermit>; 2];

impl QuestionRoom {
    pub(super) fn new(places: usize) -> Self {
        QuestionRoom { places, all: Arc::new(Semaphore::new(places)), networks: Mutex::default() }
    }

    /// Waits until a question from there may be answered.
    pub(super) async fn enter(&self, from: IpAddr) -> QuestionPlace {
        let of_network = self.of_network(Network::containing(from));
        // Neither is ever closed.
        let own = of_network.acquire_owned().await.ok();
        [self.all.clone().acquire_owned().await.ok(), own]
    }

    fn of_network(&self, network: Network) -> Arc<Semaphore> {
        let mut networks = self.networks.lock().unwrap_or_else(PoisonError::into_inner);
        networks.retain(|_, asking| asking.strong_count() > 0);
        let known = networks.get(&network).and_then(Weak::upgrade);
        let places = known.unwrap_or_else(|| Arc::new(Semaphore::new(self.places)));
        networks.insert(network, Arc::downgrade(&places));
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::Pin;

    type Waiting<'r> = Pin<Box<dyn Future<Output = QuestionPlace> + 'r>>;

    #[test]
    fn a_network_with_many_questions_delays_those_of_others_by_its_share_alone() {
        let room = QuestionRoom::new(2);
        let (hostile, honest) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([198, 51, 100, 1]));
        let mut waiting: Vec<Waiting<'_>> = (0..100).map(|_| Box::pin(room.enter(hostile)) as Waiting<'_>).collect();
        let mut entered = Vec::new();
        let ask = |waiting: &mut Vec<Waiting<'_>>, entered: &mut Vec<QuestionPlace>| {
            waiting.retain_mut(|question| question.now_or_never().map(|place| entered.push(place)).is_none());
        };
        ask(&mut waiting, &mut entered);
        assert_eq!((entered.len(), waiting.len()), (2, 98));
        let mut other = Box::pin(room.enter(honest));
        assert!((&mut other).now_or_never().is_none(), "all places are taken");
        entered.pop();
        ask(&mut waiting, &mut entered);
        assert!((&mut other).now_or_never().is_some() && entered.len() == 1, "it is next");
        drop((waiting, entered, other));
        assert!(room.of_network(Network::containing(hostile)).available_permits() == 2);
        assert_eq!(room.networks.lock().unwrap().len(), 1, "who does not ask is forgotten");
    }
}
