//! Why there is no value, as data with its sentence beside it.

use crate::policing::ExcessAction;
use crate::rejection::Rejection;
use kumade_units::{Rate, Span};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why there is no value of the available bandwidth. Documents have its sentence alone, as which it is read again.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
#[non_exhaustive]
pub enum Reason {
    /// No packet arrived.
    #[error("no packet of any train arrived")]
    NoPacketArrived,
    /// The only train of a method was rejected.
    #[error("the only train could not be used: {0}")]
    OnlyTrainRejected(Rejection),
    /// No train of a published method arrived.
    #[error("no train arrived")]
    NoTrainArrived,
    /// Fewer trains arrived than statistics take.
    #[error("fewer than three trains arrived before the budget was spent")]
    FewerThanThreeTrains,
    /// No chirp arrived whole.
    #[error("no complete chirp arrived before the budget was spent")]
    NoCompleteChirp,
    /// No train arrived at its own rate.
    #[error("the budget was spent before a train arrived as fast as it was sent")]
    NoFittingTrain,
    /// No fleet of streams was finished.
    #[error("the budget was spent before the first fleet was complete")]
    NoCompleteFleet,
    /// Up to this rate, no stream exceeded the available bandwidth.
    #[error(
        "no rate up to {0} exceeded the available bandwidth, and there was no budget left or no higher rate to try"
    )]
    NoRateExceeds(Rate),
    /// Even the slowest train, at this rate, was slowed down.
    #[error("even the slowest train, at {0}, arrived at a lower rate than it was sent: raise the iunit range")]
    SlowestTrainDelayed(Rate),
    /// So many trains in a row were rejected.
    #[error("{0} trains in a row could not be used: {1}")]
    RejectedInRow(u32, Rejection),
    /// So many trains were rejected, most of them for this.
    #[error("{0} trains could not be used, most of them because {1}")]
    TrainsRejected(u32, Rejection),
    /// The budget was spent before so many trains could be used.
    #[error("the budget was spent before {0} trains could be used")]
    TooFewTrains(u32),
    /// The budget was spent before a train filled the path: at least so much is available.
    #[error("no train was fast enough to fill the path within the budget: at least {0} is available")]
    PathNotFilled(Rate),
    /// The trains agree on no value below this one.
    #[error("the trains disagree: up to {0} may be available")]
    TrainsDisagree(Rate),
    /// So many percent of the packets were lost on a path that seems to have no queue: trains do not explain it.
    #[error("{0} % of the packets were lost without a queue: by a policer, a very short queue, or at random")]
    LossWithoutQueue(u32),
    /// Queues grow at another link than the narrow one.
    #[error("the tight link is not the narrow link, and its cross traffic varies too much to tell what it leaves")]
    TightLinkVaries,
    /// Little is left, which may be what connections give up to the trains.
    #[error("the path is nearly full, and too few trains say what it leaves")]
    NearlyFull,
    /// Stamps of this host scatter by so much, and the longest train arrived within the second time.
    #[error("time stamps of this host scatter by {0}, too much for trains of {1}")]
    CoarseStamps(Span, Span),
    /// A token bucket was used up.
    #[error("a token bucket passes bursts far above its committed rate, which was not known before the measurement")]
    UnknownTokenBucket,
    /// The same of trains that hosts may have held up.
    #[error(
        "trains arrived ever more slowly: a token bucket passes bursts far above its committed rate, or hosts held up the trains"
    )]
    ArrivedEverMoreSlowly,
    /// No train used up a token bucket.
    #[error("no train was long enough to empty the token bucket on the path, which hides the available bandwidth")]
    TokenBucketNotEmptied,
    /// The first rate was planned, and the second one was sent; the third is available at least.
    #[error(
        "sender-limited: this host was held up between bursts, and sent at {1} what was to leave at {0}; at least {2} is available"
    )]
    SenderHeldUp(Rate, Rate, Rate),
    /// The path carried all that could be sent, this rate.
    #[error("sender-limited: the path carried the highest rate that could be sent, {0}")]
    SenderLimited(Rate),
    /// The path carries this rate at least, which is about what can be sent.
    #[error("sender-limited: the path is faster than this host sends, and carries {0} at least")]
    FasterThanSender(Rate),
    /// The first rate seemed available, which is more than the second one, the capacity.
    #[error("{0} seemed available, though the narrow link carries {1} at most")]
    AboveCapacity(Rate, Rate),
    /// The first rate seemed available; nothing arrived faster than the second one.
    #[error("{0} seemed available, though nothing arrived faster than {1}")]
    AboveArrivals(Rate, Rate),
    /// The first rate passed in short trains; longer ones left at the second one.
    #[error(
        "{0} passed in short trains, but longer ones left at {1}: a host or a token bucket on this side holds them up"
    )]
    LongTrainsHeldUp(Rate, Rate),
    /// A queue grew in a longer train at this rate.
    #[error(
        "{0} passed in short trains, but a longer one kept a queue growing or full: the tight link may not be the narrow link, or others have just begun to send"
    )]
    LongTrainQueued(Rate),
    /// A longer train lost packets at this rate.
    #[error(
        "longer trains at {0} lose packets, and whether a policer drops them or they are lost at any rate cannot be told"
    )]
    LossOfUnknownCause(Rate),
    /// What passes in short trains does not last: at most this rate does.
    #[error("{what}; at most {1} lasts beside the cross traffic", what = excess_words(*.0))]
    DoesNotLast(Option<ExcessAction>, Rate),
    /// The same of longer trains that arrive at this rate, which hosts may have set.
    #[error("{what}: they arrive at {1}, whether a link or a host holds them up", what = excess_words(*.0))]
    HeldUpSomewhere(Option<ExcessAction>, Rate),
    /// Trains arrive as if this rate were available, a packet each such time.
    #[error(
        "trains arrived as if {0} were available, a packet every {1}: over connections, it may be a host that takes so long for each; try UDP"
    )]
    HostPace(Rate, Span),
    /// Packets of different connections overtake each other.
    #[error(
        "packets of different connections overtake each other: flows may have queues of their own, or take several paths"
    )]
    Overtaking,
    /// Packets wait for others though the link seems idle.
    #[error(
        "packets wait for others though the link seems idle, or longer trains arrive at less: flows may have queues of their own, where many \
         connections see nothing of the cross traffic, or packets wait elsewhere, as for a proxy or a host that reads late"
    )]
    WaitingThoughIdle,
    /// Hosts have queues of their own.
    #[error("hosts have queues of their own: this one sees its fair share, which may be more than nobody uses")]
    FairShareOfHost,
    /// Flows have queues of their own.
    #[error("flows have queues of their own: one flow sees its fair share, which may be more than nobody uses")]
    FairShareOfFlow,
    /// Flows may have queues of their own.
    #[error(
        "trains arrive no faster than what seems available, however fast they are sent: flows may have queues of their own, where one sees \
         its fair share, or delays vary too much to tell"
    )]
    MaybeFairShare,
    /// Delays vary by so much where nothing is sent beside the packets that tell. Other flows may do that as well as the path.
    #[error("without load by the measurement, delays vary by {0} and more, which hides queues from trains")]
    IdleDelaysVary(Span),
    /// Trains are too short for how packets arrive.
    #[error("{0}: {then}", then = .0.consequence())]
    TrainsTooShort(ArrivalPattern),
    /// Of so many long trains, some lost packets without a queue.
    #[error(
        "{0}: of {1} long trains, some lost many packets without a longer queue: a policer may drop what exceeds its committed rate"
    )]
    LongTrainsLose(ArrivalPattern, u32),
    /// In so many long trains, connections gave way.
    #[error("{0}: in {1} long trains, cross traffic gave way the more the longer they lasted, as TCP connections do")]
    CrossTrafficYields(ArrivalPattern, u32),
    /// In so many long trains, the link carried from the first rate to the second one.
    #[error(
        "{0}: in {1} long trains, the link carried from {2} to {3}, which varies too much to tell what it leaves on average"
    )]
    VariesTooMuch(ArrivalPattern, u32, Rate, Rate),
    /// Flows take one of so many links.
    #[error(
        "flows take one of {0} links side by side (load balancing), too many to measure each: what one flow can have depends on the link it \
         takes"
    )]
    TooManyLinks(u32),
    /// It is not known which link each connection takes.
    #[error(
        "flows take one of several links side by side (load balancing), which are too busy to tell which one each connection takes"
    )]
    LinksTooBusy,
    /// A link has too few connections.
    #[error(
        "flows take one of several links side by side (load balancing), and too few connections take the same one to measure it"
    )]
    TooFewConnectionsPerLink,
    /// Of one of so many links there is no value, for this reason.
    #[error("flows take one of {0} links side by side (load balancing), of one of which: {1}")]
    OneOfLinks(u32, Box<Reason>),
    /// Connections of so many links broke.
    #[error("flows take one of {0} links side by side (load balancing), and connections broke")]
    ConnectionsOfLinksBroke(u32),
    /// Another one, in words: what a document says that was read.
    #[error("{0}")]
    Other(String),
}

/// How packets arrive where that keeps short trains from telling the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ArrivalPattern {
    /// In batches of so many packets, one each such time.
    #[error(
        "packets arrive in batches of about {0}, one every {1}, as from a radio link, a receiver that collects them, or a busy host"
    )]
    Batches(u32, Span),
    /// At whole multiples of this time.
    #[error("packets arrive at whole multiples of {0}, as from a cellular link, whose rate varies")]
    Subframes(Span),
    /// Many at once.
    #[error("most trains arrived in clumps, as from a radio link, a receiver that collects packets, or a busy host")]
    Clumps,
    /// One by one, with delays that vary by so much without load.
    #[error("without load by the measurement, delays vary by {0} and more")]
    IdleVariation(Span),
}

impl ArrivalPattern {
    /// What follows for short trains.
    fn consequence(self) -> &'static str {
        match self {
            ArrivalPattern::Batches(..) => "trains are too short to tell its rate",
            ArrivalPattern::Subframes(_) => "trains are too short to tell what it leaves on average",
            ArrivalPattern::Clumps => "they are too short to tell its rate",
            ArrivalPattern::IdleVariation(_) => "trains are too short to tell more",
        }
    }
}

impl Reason {
    /// How packets arrive, where that is why.
    pub fn arrival_pattern(&self) -> Option<ArrivalPattern> {
        match *self {
            Reason::IdleDelaysVary(variation) => Some(ArrivalPattern::IdleVariation(variation)),
            Reason::TrainsTooShort(pattern)
            | Reason::LongTrainsLose(pattern, _)
            | Reason::CrossTrafficYields(pattern, _)
            | Reason::VariesTooMuch(pattern, ..) => Some(pattern),
            _ => None,
        }
    }

    /// Whether it is that flows take one of several links side by side.
    pub fn is_of_load_balancing(&self) -> bool {
        use Reason::{ConnectionsOfLinksBroke, LinksTooBusy, OneOfLinks, TooFewConnectionsPerLink, TooManyLinks};
        matches!(
            self,
            TooManyLinks(_) | LinksTooBusy | TooFewConnectionsPerLink | OneOfLinks(..) | ConnectionsOfLinksBroke(_)
        )
    }
}

/// What becomes of packets beyond the rate that lasts.
pub(crate) fn excess_words(action: Option<ExcessAction>) -> &'static str {
    match action {
        Some(ExcessAction::Drops) => "a policer drops what exceeds its committed rate",
        Some(ExcessAction::Delays) => "what passes in short trains does not last: longer ones build a queue",
        None => "what passes in short trains does not last",
    }
}

impl From<String> for Reason {
    fn from(words: String) -> Self {
        Reason::Other(words)
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.to_string()
    }
}
