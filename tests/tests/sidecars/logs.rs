use usher_tests::synthetic::catalog::logs;

quits! {
    fluent_bit: logs::fluent_bit(), [], Term, 0;
    fluentd: logs::fluentd(), [], Term, 0;
    filebeat: logs::filebeat(), [], Term, 0;
    vector: logs::vector(), [], Term, 0;
    otel_collector: logs::otel_collector(), [], Term, 0;
    promtail: logs::promtail(), [], Term, 0;
}
