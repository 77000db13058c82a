/// Packets of a period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketLosses {
    pub packets: u64,
    pub lost: u64,
}

/// The loss that a path has whatever the rate, against which more is noticed.
#[derive(Debug, Default)]
pub(crate) struct BackgroundLoss {
    packets: f64,
    lost: f64,
}

/// The first lost packet does not make a lossy path.
const MIN_RATIO_PACKETS: f64 = 1000.0;
/// About so many packets are remembered.
const MEMORY_PACKETS: f64 = 10_000.0;
/// Less is not told from chance.
const MIN_LOST_PACKETS: f64 = 5.0;
const MIN_LOSS_RATIO: f64 = 0.02;
/// No path loses more whatever the rate.
const MAX_LOSS_RATIO: f64 = 0.15;

impl BackgroundLoss {
    /// Whether clearly more was lost than usually. Where going slower did not help (`slowed`), it is usual. Where less was
    /// sent than the pace allowed (`limited`), much must be lost for the pace to be the reason.
    pub fn exceeds_background(&self, losses: PacketLosses, slowed: bool, limited: bool) -> bool {
        let lost = losses.lost as f64;
        let packets = losses.packets as f64;
        let ratio =
            if limited { MAX_LOSS_RATIO } else { (3.0 * self.loss_ratio()).clamp(MIN_LOSS_RATIO, MAX_LOSS_RATIO) };
        !slowed && lost >= MIN_LOST_PACKETS && lost > packets * ratio
    }

    /// What was lost and did not exceed what is usual.
    pub fn record_losses(&mut self, losses: PacketLosses) {
        let kept = (1.0 - losses.packets as f64 / MEMORY_PACKETS).max(0.0);
        self.packets = self.packets * kept + losses.packets as f64;
        self.lost = self.lost * kept + losses.lost as f64;
    }

    /// The usual loss ratio.
    pub fn loss_ratio(&self) -> f64 {
        self.lost / self.packets.max(MIN_RATIO_PACKETS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_that_is_always_there_is_usual_and_a_burst_is_not() {
        let mut floor = BackgroundLoss::default();
        for _ in 0..100 {
            let losses = PacketLosses { packets: 200, lost: 1 };
            assert!(!floor.exceeds_background(losses, false, false));
            floor.record_losses(losses);
        }
        assert!((floor.loss_ratio() - 0.005).abs() < 1e-4);
        assert!(floor.exceeds_background(PacketLosses { packets: 200, lost: 8 }, false, false));
        assert!(!floor.exceeds_background(PacketLosses { packets: 200, lost: 8 }, true, false), "it was no slower");
        assert!(!floor.exceeds_background(PacketLosses { packets: 200, lost: 8 }, false, true), "it was not full");
        assert!(
            floor.exceeds_background(PacketLosses { packets: 200, lost: 40 }, false, true),
            "it carries less than was sent"
        );
        assert!(!floor.exceeds_background(PacketLosses { packets: 20, lost: 2 }, false, false));
    }
}
