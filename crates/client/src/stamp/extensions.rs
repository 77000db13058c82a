//! What the reflector says in the optional extensions of RFC 8972, of all answers together.

use super::config::StampConfig;
use super::exchange::ProbeRecord;
use kumade_measurement::report::{
    ClassOfServiceCount, ClassOfServiceReport, CountersReport, EcnCodepoint, ExtensionsReport, LocationReport,
    SynchronisationSource, TimestampMethod, TimestampsReport,
};
use kumade_packet::{DsField, Dscp, Ecn};
use kumade_units::Span;
use kumade_wire::stamp::{self, ClassOfService, ReflectedTlvs, ReverseDscp, TimestampInformation, TlvRequest, TlvType};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What came of it; none where nothing was asked for.
pub(super) fn report_extensions(config: &StampConfig, probes: &[ProbeRecord]) -> Option<ExtensionsReport> {
    let request = config.tlv_request();
    if request == TlvRequest::default() {
        return None;
    }
    let answers: Vec<(&ProbeRecord, ReflectedTlvs)> =
        probes.iter().filter_map(|probe| Some((probe, probe.tlvs?.ok()?))).collect();
    let has = |value: fn(&ReflectedTlvs) -> bool| answers.iter().any(|(_, tlvs)| value(tlvs));
    let asked = [
        (TlvType::ClassOfService, request.class_of_service.is_some(), has(|tlvs| tlvs.class_of_service.is_some())),
        (
            TlvType::TimestampInformation,
            request.timestamp_information,
            has(|tlvs| tlvs.timestamp_information.is_some()),
        ),
        (TlvType::Location, request.location, has(|tlvs| tlvs.location.is_some())),
        (TlvType::DirectMeasurement, request.direct_measurement, has(|tlvs| tlvs.direct_measurement.is_some())),
        (TlvType::FollowUpTelemetry, request.follow_up_telemetry, has(|tlvs| tlvs.follow_up_telemetry.is_some())),
    ];
    let unanswered = asked.iter().filter(|(_, is_asked, is_answered)| *is_asked && !is_answered);
    let mut latest = answers.iter().rev().map(|(_, tlvs)| tlvs);
    Some(ExtensionsReport {
        unanswered: unanswered.map(|(kind, ..)| kind.name().to_owned()).collect(),
        not_authentic: probes.iter().filter(|probe| matches!(probe.tlvs, Some(Err(_)))).count() as u32,
        class_of_service: report_class_of_service(config.ds_field.unwrap_or_default(), &answers),
        timestamps: latest.clone().find_map(|tlvs| tlvs.timestamp_information).map(report_timestamps),
        location: latest.find_map(|tlvs| tlvs.location).map(report_location),
        counters: report_counters(answers.iter().map(|(_, tlvs)| tlvs)),
        reply_lateness_seconds: reply_lateness(probes).map(Span::as_secs_f64),
    })
}

/// With `sent`, test packets leave.
fn report_class_of_service(sent: DsField, answers: &[(&ProbeRecord, ReflectedTlvs)]) -> Option<ClassOfServiceReport> {
    let (mut up, mut down) = (BTreeMap::new(), BTreeMap::new());
    let mut refused = 0;
    for (probe, tlvs) in answers {
        // What was asked for is known here, whatever the reflector repeats.
        let told = tlvs.class_of_service.map(|class| ClassOfService { requested: sent, ..class });
        let Some(class) = told else { continue };
        *up.entry(count_of((Some(sent.dscp()), Some(sent.ecn())), class.arrived)).or_insert(0) += 1;
        if let Some(arrived) = probe.reply_ds_field {
            *down.entry(count_of(class.sent_back(), arrived)).or_insert(0) += 1;
        }
        refused += u32::from(class.reverse_dscp == ReverseDscp::AsArrived);
    }
    let sorted = |counts: BTreeMap<ClassOfServiceCount, u32>| {
        let mut counts: Vec<_> =
            counts.into_iter().map(|(count, packets)| ClassOfServiceCount { packets, ..count }).collect();
        counts.sort_by(|a, b| b.cmp(a));
        counts
    };
    (!up.is_empty()).then(|| ClassOfServiceReport { up: sorted(up), down: sorted(down), refused })
}

fn count_of((sent_dscp, sent_ecn): (Option<Dscp>, Option<Ecn>), arrived: DsField) -> ClassOfServiceCount {
    ClassOfServiceCount {
        packets: 0,
        sent_dscp: sent_dscp.map(Dscp::number),
        sent_ecn: sent_ecn.map(EcnCodepoint::from),
        arrived_dscp: arrived.dscp().number(),
        arrived_ecn: arrived.ecn().into(),
    }
}

fn report_timestamps(information: TimestampInformation) -> TimestampsReport {
    let source = |source: Option<stamp::SynchronisationSource>| {
        source.map(|source| match source {
            stamp::SynchronisationSource::Ntp => SynchronisationSource::Ntp,
            stamp::SynchronisationSource::Ptp => SynchronisationSource::Ptp,
            stamp::SynchronisationSource::Ssu => SynchronisationSource::Ssu,
            stamp::SynchronisationSource::Navigation => SynchronisationSource::Navigation,
            stamp::SynchronisationSource::Local => SynchronisationSource::Local,
        })
    };
    let method = |method: Option<stamp::TimestampMethod>| {
        method.map(|method| match method {
            stamp::TimestampMethod::Hardware => TimestampMethod::Hardware,
            stamp::TimestampMethod::Software => TimestampMethod::Software,
            stamp::TimestampMethod::ControlPlane => TimestampMethod::ControlPlane,
        })
    };
    TimestampsReport {
        source_in: source(information.source_in),
        method_in: method(information.method_in),
        source_out: source(information.source_out),
        method_out: method(information.method_out),
    }
}

fn report_location(location: stamp::Location) -> LocationReport {
    let text = |address: Option<IpAddr>| address.map(|address| address.to_string());
    LocationReport {
        source_address: text(location.source),
        source_port: location.source_port,
        destination_address: text(location.destination),
        destination_port: location.destination_port,
    }
}

/// Between the first and the last answer that has them.
fn report_counters<'t>(answers: impl Iterator<Item = &'t ReflectedTlvs>) -> Option<CountersReport> {
    let mut counts = answers.filter_map(|tlvs| tlvs.direct_measurement);
    let first = counts.next()?;
    let last = counts.last()?;
    Some(CountersReport {
        sent: last.sender_transmitted.wrapping_sub(first.sender_transmitted),
        received: last.reflector_received.wrapping_sub(first.reflector_received),
        answered: last.reflector_transmitted.wrapping_sub(first.reflector_transmitted),
    })
}

/// The median of how much later answers left than their own stamps say, of those that a later answer tells of.
fn reply_lateness(probes: &[ProbeRecord]) -> Option<Span> {
    let replies: BTreeMap<_, _> =
        probes.iter().filter_map(|probe| probe.reply).map(|reply| (reply.sequence, reply.reflected)).collect();
    let told = probes.iter().filter_map(|probe| probe.tlvs?.ok()?.follow_up_telemetry);
    let mut lateness: Vec<_> = told.filter_map(|told| Some(told.reflected - *replies.get(&told.sequence)?)).collect();
    lateness.sort_unstable();
    lateness.get(lateness.len() / 2).copied()
}
