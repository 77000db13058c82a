use kumade_alerts::{Cause, Notice, RiskKind};
use kumade_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the schema.
pub const SCHEMA: &str = "kumade.alert/1";

/// The document `kumade.alert/1`: what webhooks and commands are told. Times are seconds since 1970 (UTC).
///
/// A message may come more than once, with the same `id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AlertMessage {
    /// `kumade.alert/1`.
    pub schema: String,
    /// Of this message: the same whenever it is sent again.
    pub id: String,
    /// Of the alert: the same from `raised` to `resolved`.
    pub alert: String,
    /// `raised`, `changed` (its cause is more than one path), `resolved`, or `test`.
    pub state: String,
    /// The name of the rule that raised it.
    pub rule: String,
    /// `down`, `no-data`, `loss`, `delay`, `available`, `change`, `not-archived`, `agent-silent`, or `test`.
    pub condition: String,
    /// What has failed, as far as known.
    pub cause: AlertCause,
    /// Ids of the paths that it stands for.
    pub pairs: Vec<String>,
    /// For people.
    pub text: String,
    /// What the host that says so is called.
    pub monitor: String,
    /// Of this message.
    pub time_seconds: f64,
    /// When the alert was raised.
    pub raised_seconds: f64,
}

/// What has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AlertCause {
    /// `path`, `host` (its uplink, or itself), `link`, `archive`, `agent`, or `coordinator` (its uplink: all agents are silent).
    pub kind: String,
    /// Which.
    pub name: String,
}

impl AlertMessage {
    /// The JSON Schema of such documents.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(AlertMessage).to_value()
    }

    pub(crate) fn from_notice(notice: &Notice, monitor: &str) -> Self {
        let alert = &notice.alert;
        AlertMessage {
            schema: SCHEMA.to_owned(),
            id: format!("{}-{}", alert.id, notice.kind.word()),
            alert: alert.id.clone(),
            state: notice.kind.word().to_owned(),
            rule: alert.rule.clone(),
            condition: alert.condition.clone(),
            cause: AlertCause::from(&alert.cause),
            pairs: alert.pairs.clone(),
            text: notice_text(notice),
            monitor: monitor.to_owned(),
            time_seconds: notice.at.as_secs_f64(),
            raised_seconds: alert.raised.as_secs_f64(),
        }
    }

    /// One that says that it is none.
    pub(crate) fn test(monitor: &str, utc: Time) -> Self {
        let id = format!("test-{:x}", utc.as_nanos());
        AlertMessage {
            schema: SCHEMA.to_owned(),
            id: id.clone(),
            alert: id,
            state: "test".to_owned(),
            rule: "test".to_owned(),
            condition: "test".to_owned(),
            cause: AlertCause { kind: "host".to_owned(), name: monitor.to_owned() },
            pairs: Vec::new(),
            text: format!("This is a test of the monitor at {monitor}: nothing is wrong."),
            monitor: monitor.to_owned(),
            time_seconds: utc.as_secs_f64(),
            raised_seconds: utc.as_secs_f64(),
        }
    }
}

/// What has happened, for people.
pub(crate) fn notice_text(notice: &Notice) -> String {
    use kumade_alerts::NoticeKind;
    match notice.kind {
        NoticeKind::Raised | NoticeKind::Changed => notice.alert.text.clone(),
        NoticeKind::Resolved => {
            let seconds = (notice.at - notice.alert.raised).as_nanos().max(0) / 1_000_000_000;
            format!("Resolved after {seconds} s: {}", notice.alert.text)
        }
    }
}

impl From<&Cause> for AlertCause {
    fn from(cause: &Cause) -> Self {
        let (kind, name) = match cause {
            Cause::Pair(id) => ("path", id.as_str()),
            Cause::Shared(risk) => match risk.kind {
                RiskKind::Link => ("link", risk.name.as_str()),
                RiskKind::Host => ("host", risk.name.as_str()),
            },
            Cause::Archive => ("archive", "archive"),
            Cause::Agent(id) => ("agent", id.as_str()),
            Cause::AllAgents => ("coordinator", "coordinator"),
        };
        AlertCause { kind: kind.to_owned(), name: name.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Set `UPDATE_SCHEMAS` to write the file anew after a deliberate change.
    #[test]
    fn the_published_schema_is_that_of_the_messages() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/kumade.alert.1.json");
        let generated = serde_json::to_string_pretty(&AlertMessage::json_schema()).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(&path, &generated).unwrap();
        }
        let published = std::fs::read_to_string(path).unwrap();
        assert!(published == generated, "run the test again with UPDATE_SCHEMAS=1 if the document was meant to change");
        let validator = jsonschema::validator_for(&serde_json::from_str(&published).unwrap()).unwrap();
        let message = serde_json::to_value(AlertMessage::test("office", Time::ZERO)).unwrap();
        assert!(validator.is_valid(&message));
    }
}
