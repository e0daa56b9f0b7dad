use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn notes_with_external_text_are_bounded(value: String, error in "\\PC{0,3000}|[\\x00-\\x1f]{0,900}") {
        let bad = InvalidAnnotation {
            place: Place::Pod,
            key: annotation::SIDECARS,
            value: value.clone(),
            expected: "a list",
        };
        let would_fail = GaveUp::WouldFailPod { step: term(), code: ExitCode::Known(143), advice: error.clone() };
        let kinds = vec![
            Kind::InvalidAnnotation(bad),
            failed(Outcome::Failed(error.clone())),
            Kind::GaveUp { reason: would_fail },
            Kind::HoldFailed(Failed::Arm(error.clone())),
            Kind::HoldFailed(Failed::Release(error.clone())),
            Kind::StartNotHeld(start::NotHeld::Container { reason: error.clone() }),
            Kind::StartNotHeld(start::NotHeld::Denied { reason: error }),
            Kind::RuntimeUnsupported { runtime_class: Some(value) },
        ];
        for (_reason, note) in all(kinds) {
            prop_assert!(note.len() <= LONGEST_NOTE);
            prop_assert!(!note.chars().any(char::is_control));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn attempts_are_bounded(pods in prop::collection::vec(0..3000_u64, 1000..2500)) {
        let mut recorder = EventRecorder::new("node-1".to_owned());
        for (number, pod) in pods.into_iter().enumerate() {
            let kind = if number % 5 == 0 { ended(true) } else { failed(Outcome::Refused) };
            let mut decision = decision(kind);
            decision.pod = PodUid::parse(&format!("{pod:032x}")).unwrap();
            recorder.notice(1, &decision);
            prop_assert!(recorder.trails.len() <= TRAILS);
            prop_assert_eq!(recorder.trails.len(), recorder.order.len());
        }
    }
}
