//! Noise_NNpsk0: fresh keys for every session, which only two holders of the same pre-shared key can agree on
//! (<https://noiseprotocol.org/noise.html>, revision 34, section 9). The ephemeral keys come from the operating
//! system; nothing else in this crate is random.
//!
//! On the wire every Noise message is a record: its length in two bytes, then the message. An empty record says
//! "your key is not mine".

use crate::{Version, preamble};
use kumade_noise_session::PresharedKey;
use snow::{HandshakeState, TransportState};

const NOISE_PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Bytes of authentication that each record carries.
const TAG_BYTES: usize = 16;
/// Plain bytes in one record at most.
const MAX_PLAINTEXT_BYTES: usize = 16 << 10;
/// A handshake message: an ephemeral key and a tag.
const HANDSHAKE_BYTES: usize = 32 + TAG_BYTES;

/// The other side holds another key, or somebody altered the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CipherError;

/// Begins as the client: the state, and the record to send.
pub(crate) fn initiate(key: &PresharedKey, prologue: &[u8]) -> Result<(HandshakeState, Vec<u8>), CipherError> {
    let mut state = builder(key, prologue)?.build_initiator().map_err(|_| CipherError)?;
    let mut record = Vec::new();
    write_handshake(&mut state, &mut record)?;
    Ok((state, record))
}

/// Finds out which of its clients' `keys` somebody who begins with this message has: the key's place, and the server's state,
/// which answers it. A message of another length than a client's is not tried.
pub(crate) fn find_key(keys: &[PresharedKey], prologue: &[u8], message: &[u8]) -> Option<(usize, HandshakeState)> {
    if message.len() != HANDSHAKE_BYTES {
        return None;
    }
    keys.iter().enumerate().find_map(|(index, key)| {
        let mut state = builder(key, prologue).ok()?.build_responder().ok()?;
        read_handshake(&mut state, message).ok().map(|()| (index, state))
    })
}

/// The other side's handshake message.
pub(crate) fn read_handshake(state: &mut HandshakeState, message: &[u8]) -> Result<(), CipherError> {
    let mut payload = [0; HANDSHAKE_BYTES];
    match state.read_message(message, &mut payload) {
        Ok(0) => Ok(()),
        _ => Err(CipherError),
    }
}

/// Our handshake message, as a record at the end of `out`.
pub(crate) fn write_handshake(state: &mut HandshakeState, out: &mut Vec<u8>) -> Result<(), CipherError> {
    let mut message = [0; HANDSHAKE_BYTES];
    let length = state.write_message(&[], &mut message).map_err(|_| CipherError)?;
    push_record(&message[..length], out);
    Ok(())
}

/// Encrypts `plain` into as many records as it takes.
pub(crate) fn encrypt(state: &mut TransportState, plain: &[u8], out: &mut Vec<u8>) -> Result<(), CipherError> {
    let mut message = vec![0; MAX_PLAINTEXT_BYTES + TAG_BYTES];
    for chunk in plain.chunks(MAX_PLAINTEXT_BYTES) {
        let length = state.write_message(chunk, &mut message).map_err(|_| CipherError)?;
        push_record(&message[..length], out);
    }
    Ok(())
}

/// Decrypts one record's message onto the end of `plain`.
pub(crate) fn decrypt(state: &mut TransportState, message: &[u8], plain: &mut Vec<u8>) -> Result<(), CipherError> {
    let start = plain.len();
    plain.resize(start + message.len(), 0);
    let length = state.read_message(message, &mut plain[start..]).map_err(|_| CipherError)?;
    plain.truncate(start + length);
    Ok(())
}

/// The record that says "your key is not mine".
pub(crate) fn push_key_refusal(out: &mut Vec<u8>) {
    push_record(&[], out);
}

/// The first record of `bytes`, if it is there as a whole: where its message ends (it begins at 2).
pub(crate) fn record_end(bytes: &[u8]) -> Result<Option<usize>, CipherError> {
    let Some(prefix) = bytes.first_chunk::<2>() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes(*prefix));
    if length > MAX_PLAINTEXT_BYTES + TAG_BYTES {
        return Err(CipherError);
    }
    Ok((bytes.len() >= 2 + length).then_some(2 + length))
}

fn builder<'k>(key: &'k PresharedKey, prologue: &'k [u8]) -> Result<snow::Builder<'k>, CipherError> {
    let pattern = NOISE_PATTERN.parse().map_err(|_| CipherError)?;
    snow::Builder::new(pattern).psk(0, key.as_bytes()).and_then(|b| b.prologue(prologue)).map_err(|_| CipherError)
}

fn push_record(message: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message);
}

/// What both sides mix into the keys: the client's preamble, so that nobody can alter it on the way.
pub(crate) fn prologue(version: Version) -> [u8; preamble::Preamble::SIZE] {
    preamble::Preamble::Control { encrypted: true }.encode(version)
}
