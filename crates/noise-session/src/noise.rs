//! The handshake `Noise_IKpsk2` (<https://noiseprotocol.org/noise.html>, revision 34, §7.5 and §9): one message each way,
//! in which the initiator knows the responder's static key before, and sends its own encrypted.

use crate::message::{INITIATION_NOISE_RANGE, INITIATION_PAYLOAD_BYTES, RESPONSE_NOISE_RANGE, RESPONSE_PAYLOAD_BYTES};
use crate::{PresharedKey, PrivateKey, PublicKey};
use rand_core::CryptoRng;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

const PATTERN: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
/// Where the pre-shared key stands in the pattern.
const PSK_POSITION: u8 = 2;

/// What a handshake is for. Another purpose, and another version of the protocol, has another prologue (Noise §6), and then
/// nothing of it authenticates.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Prologue {
    /// A session of datagrams.
    Session,
    /// One byte stream.
    Stream,
}

impl Prologue {
    fn bytes(self) -> &'static [u8] {
        match self {
            Prologue::Session => b"kumade secure 3",
            Prologue::Stream => b"kumade secure stream 1",
        }
    }
}

pub(crate) type InitiationNoise = [u8; INITIATION_NOISE_RANGE.end - INITIATION_NOISE_RANGE.start];
pub(crate) type ResponseNoise = [u8; RESPONSE_NOISE_RANGE.end - RESPONSE_NOISE_RANGE.start];

/// The other side holds other keys, or somebody altered the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoiseError;

impl From<Error> for NoiseError {
    fn from(_: Error) -> Self {
        NoiseError
    }
}

/// The keys of a session, by the directions as the host sees them that derived them.
pub(crate) struct SessionKeys {
    pub(crate) send: Zeroizing<[u8; 32]>,
    pub(crate) receive: Zeroizing<[u8; 32]>,
}

/// An initiation that waits for its response.
pub(crate) struct NoiseInitiator(HandshakeState);

/// A host that has read an initiation.
pub(crate) struct NoiseResponder {
    state: HandshakeState,
    /// Who says that it sends.
    pub(crate) initiator: PublicKey,
    pub(crate) payload: [u8; INITIATION_PAYLOAD_BYTES],
}

impl NoiseInitiator {
    pub(crate) fn begin(
        prologue: Prologue,
        identity: &PrivateKey,
        peer: &PublicKey,
        psk: &PresharedKey,
        payload: &[u8; INITIATION_PAYLOAD_BYTES],
        random: &mut dyn CryptoRng,
    ) -> Result<(Self, InitiationNoise), NoiseError> {
        let builder = builder(prologue, identity, random)?
            .remote_public_key(peer.as_bytes())?
            .psk(PSK_POSITION, psk.as_bytes())?;
        let mut state = builder.build_initiator()?;
        let mut message: InitiationNoise = [0; INITIATION_NOISE_RANGE.end - INITIATION_NOISE_RANGE.start];
        let length = state.write_message(payload, &mut message)?;
        if length == message.len() { Ok((NoiseInitiator(state), message)) } else { Err(NoiseError) }
    }

    /// Reads the response. One that fails to authenticate leaves the state as it was.
    pub(crate) fn finish(
        &mut self,
        message: &ResponseNoise,
    ) -> Result<([u8; RESPONSE_PAYLOAD_BYTES], SessionKeys), NoiseError> {
        let mut payload = [0; RESPONSE_PAYLOAD_BYTES];
        self.0.read_message(message, &mut payload)?;
        let (send, receive) = self.0.dangerously_get_raw_split();
        Ok((payload, SessionKeys { send: Zeroizing::new(send), receive: Zeroizing::new(receive) }))
    }
}

impl NoiseResponder {
    pub(crate) fn read(
        prologue: Prologue,
        identity: &PrivateKey,
        message: &InitiationNoise,
        random: &mut dyn CryptoRng,
    ) -> Result<Self, NoiseError> {
        let mut state = builder(prologue, identity, random)?.build_responder()?;
        let mut payload = [0; INITIATION_PAYLOAD_BYTES];
        state.read_message(message, &mut payload)?;
        let initiator = state.get_remote_static().and_then(|key| key.try_into().ok()).ok_or(NoiseError)?;
        Ok(NoiseResponder { state, initiator: PublicKey::from_bytes(initiator), payload })
    }

    /// The response, and with it the session's keys.
    pub(crate) fn respond(
        mut self,
        psk: &PresharedKey,
        payload: &[u8; RESPONSE_PAYLOAD_BYTES],
    ) -> Result<(ResponseNoise, SessionKeys), NoiseError> {
        self.state.set_psk(usize::from(PSK_POSITION), psk.as_bytes())?;
        let mut message: ResponseNoise = [0; RESPONSE_NOISE_RANGE.end - RESPONSE_NOISE_RANGE.start];
        let length = self.state.write_message(payload, &mut message)?;
        let (receive, send) = self.state.dangerously_get_raw_split();
        let keys = SessionKeys { send: Zeroizing::new(send), receive: Zeroizing::new(receive) };
        if length == message.len() { Ok((message, keys)) } else { Err(NoiseError) }
    }
}

/// What two hosts alone can derive from their keys.
pub(crate) fn shared_secret(identity: &PrivateKey, peer: &PublicKey) -> Result<Zeroizing<[u8; 32]>, NoiseError> {
    let mut own = ContributoryDh(DefaultResolver.resolve_dh(&DHChoice::Curve25519).ok_or(NoiseError)?);
    own.set(identity.bytes());
    let mut secret = Zeroizing::new([0; 32]);
    own.dh(peer.as_bytes(), &mut *secret)?;
    Ok(secret)
}

/// One half of a Diffie-Hellman exchange, with a key that is used once.
pub(crate) struct EphemeralKey(Box<dyn Dh>);

impl EphemeralKey {
    pub(crate) fn generate(random: &mut dyn CryptoRng) -> Result<Self, NoiseError> {
        let mut bytes = Zeroizing::new([0; 32]);
        random.fill_bytes(&mut *bytes);
        let resolver = PrimitiveResolver { ephemeral: bytes };
        let (mut source, dh) = (resolver.resolve_rng(), resolver.resolve_dh(&DHChoice::Curve25519));
        let (source, mut dh) = (source.as_mut().ok_or(NoiseError)?, dh.ok_or(NoiseError)?);
        dh.generate(&mut **source)?;
        Ok(EphemeralKey(dh))
    }

    pub(crate) fn public_key(&self) -> Result<[u8; 32], NoiseError> {
        self.0.pubkey().try_into().map_err(|_| NoiseError)
    }

    /// What both halves have in common.
    pub(crate) fn shared_secret(&self, public_key: &[u8; 32]) -> Result<Zeroizing<[u8; 32]>, NoiseError> {
        let mut secret = Zeroizing::new([0; 32]);
        self.0.dh(public_key, &mut *secret)?;
        Ok(secret)
    }
}

/// Three keys of a chaining key and a new secret (Noise §4.3, HKDF).
pub(crate) fn derive_keys(chain: &[u8; 32], secret: &[u8; 32]) -> Result<[Zeroizing<[u8; 32]>; 3], NoiseError> {
    let mut hash = DefaultResolver.resolve_hash(&HashChoice::Blake2s).ok_or(NoiseError)?;
    let [mut one, mut two, mut three] = std::array::from_fn(|_| Zeroizing::new([0; 32]));
    hash.hkdf(chain, secret, 3, &mut *one, &mut *two, &mut *three);
    Ok([one, two, three])
}

fn builder<'k>(
    prologue: Prologue,
    identity: &'k PrivateKey,
    random: &mut dyn CryptoRng,
) -> Result<Builder<'k>, NoiseError> {
    let mut ephemeral = Zeroizing::new([0; 32]);
    random.fill_bytes(&mut *ephemeral);
    let builder = Builder::with_resolver(PATTERN.parse()?, Box::new(PrimitiveResolver { ephemeral }));
    Ok(builder.local_private_key(identity.bytes())?.prologue(prologue.bytes())?)
}

/// The library's own primitives, but with the caller's randomness, and with no regard for public keys of small order.
struct PrimitiveResolver {
    ephemeral: Zeroizing<[u8; 32]>,
}

impl CryptoResolver for PrimitiveResolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(SingleKeyRandom(Some(self.ephemeral.clone()))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        Some(Box::new(ContributoryDh(DefaultResolver.resolve_dh(choice)?)))
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// The randomness of one handshake: a single ephemeral key, given out once.
struct SingleKeyRandom(Option<Zeroizing<[u8; 32]>>);

impl Random for SingleKeyRandom {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        let key = self.0.take().filter(|key| key.len() == dest.len()).ok_or(Error::Rng)?;
        dest.copy_from_slice(&*key);
        Ok(())
    }
}

/// Refuses a shared secret of zeros, to which the peer's key would have contributed all and ours nothing
/// (RFC 7748 §6.1; Noise §12.1).
struct ContributoryDh(Box<dyn Dh>);

impl Dh for ContributoryDh {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn pub_len(&self) -> usize {
        self.0.pub_len()
    }

    fn priv_len(&self) -> usize {
        self.0.priv_len()
    }

    fn set(&mut self, privkey: &[u8]) {
        self.0.set(privkey);
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        self.0.generate(rng)
    }

    fn pubkey(&self) -> &[u8] {
        self.0.pubkey()
    }

    fn privkey(&self) -> &[u8] {
        self.0.privkey()
    }

    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), Error> {
        self.0.dh(pubkey, out)?;
        let is_zero: bool = out[..self.dh_len()].ct_eq(&[0; 32]).into();
        if is_zero { Err(Error::Dh) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    const SESSION: Prologue = Prologue::Session;

    fn host(random: &mut StdRng) -> PrivateKey {
        PrivateKey::generate(random)
    }

    #[test]
    fn both_sides_derive_the_same_keys_and_nobody_else_does() {
        let random = &mut StdRng::seed_from_u64(1);
        let (a, b) = (host(random), host(random));
        let psk = PresharedKey::from_bytes([7; 32]);
        let (mut initiator, message) =
            NoiseInitiator::begin(SESSION, &a, &b.public_key(), &psk, &[3; 24], random).unwrap();
        assert!(NoiseResponder::read(SESSION, &a, &message, random).is_err(), "sealed for another host");
        assert!(NoiseResponder::read(Prologue::Stream, &b, &message, random).is_err(), "for another purpose");
        let responder = NoiseResponder::read(SESSION, &b, &message, random).unwrap();
        assert_eq!((responder.initiator, responder.payload), (a.public_key(), [3; 24]));
        let (response, theirs) = responder.respond(&psk, &[5; 12]).unwrap();
        // A forged response does no harm to the handshake.
        let mut forged = response;
        for at in [0, 40] {
            forged[at] ^= 1;
            assert!(initiator.finish(&forged).is_err());
        }
        let (payload, ours) = initiator.finish(&response).unwrap();
        assert_eq!(payload, [5; 12]);
        assert_eq!((&ours.send, &ours.receive), (&theirs.receive, &theirs.send));
        assert_ne!(ours.send, ours.receive);
    }

    #[test]
    fn another_preshared_key_is_noticed_by_the_initiator() {
        let random = &mut StdRng::seed_from_u64(2);
        let (a, b) = (host(random), host(random));
        let none = PresharedKey::default();
        let (mut initiator, message) =
            NoiseInitiator::begin(SESSION, &a, &b.public_key(), &none, &[0; 24], random).unwrap();
        let responder = NoiseResponder::read(SESSION, &b, &message, random).unwrap();
        let (response, _) = responder.respond(&PresharedKey::from_bytes([1; 32]), &[0; 12]).unwrap();
        assert!(initiator.finish(&response).is_err());
    }

    #[test]
    fn public_keys_of_small_order_are_refused() {
        let random = &mut StdRng::seed_from_u64(3);
        let zero = PublicKey::from_bytes([0; 32]);
        let a = host(random);
        assert!(NoiseInitiator::begin(SESSION, &a, &zero, &PresharedKey::default(), &[0; 24], random).is_err());
        assert!(NoiseResponder::read(SESSION, &a, &[0; 120], random).is_err());
    }
}
