//! Fisher's exact test: whether packets with a mark are lost more often than those without, or by the same chance.

/// A mark counts as dropped where chance has it so in this part of all cases at most: thirty marks in either direction are looked at, which
/// makes an error in two hundred measurements of lossy paths.
pub(super) const MAX_CHANCE: f64 = 1e-4;

/// So many packets of a kind, of which so many were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LossCount {
    pub(super) sent: u32,
    pub(super) lost: u32,
}

/// The probability that, if packets of both kinds are lost alike, as many of `marked` as were lost or more are among those that were.
pub(super) fn loss_p_value(marked: LossCount, reference: LossCount) -> f64 {
    let sent = marked.sent + reference.sent;
    let lost = marked.lost + reference.lost;
    let all = log_choices(sent, lost);
    let most = lost.min(marked.sent);
    let probability = |of_marked: u32| {
        let of_reference = lost - of_marked;
        match of_reference > reference.sent {
            true => 0.0,
            false => (log_choices(marked.sent, of_marked) + log_choices(reference.sent, of_reference) - all).exp(),
        }
    };
    (marked.lost..=most).map(probability).sum::<f64>().min(1.0)
}

/// Natural logarithm of the number of ways to choose `part` of `whole`.
fn log_choices(whole: u32, part: u32) -> f64 {
    let part = part.min(whole - part.min(whole));
    (1..=part).map(|step| (f64::from(whole - part + step) / f64::from(step)).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(marked: (u32, u32), reference: (u32, u32)) -> f64 {
        let count = |(lost, sent)| LossCount { sent, lost };
        loss_p_value(count(marked), count(reference))
    }

    #[test]
    fn probabilities_are_those_of_the_hypergeometric_distribution() {
        // 1 / C(24, 12), 1 / C(40, 4).
        assert!((p((12, 12), (0, 12)) * 2_704_156.0 - 1.0).abs() < 1e-9);
        assert!((p((4, 4), (0, 36)) * 91_390.0 - 1.0).abs() < 1e-9);
        // Fisher's lady and her tea: 17 of 70.
        assert!((p((3, 4), (1, 4)) - 17.0 / 70.0).abs() < 1e-9);
        assert!((p((0, 9), (5, 9)) - 1.0).abs() < 1e-9);
        assert!((p((3, 3), (7, 7)) - 1.0).abs() < 1e-9, "all are lost alike");
        assert!((p((0, 0), (0, 0)) - 1.0).abs() < 1e-9);
    }
}
