use usher_tests::synthetic::catalog::{consul, envoy, kuma, linkerd};

const QUIT: &str = "POST /quitquitquit";
const SHUTDOWN: &str = "POST /shutdown";
const GRACEFUL: &str = "POST /graceful_shutdown";

/// Their exit code is unknown, which the pod's author has to accept.
const MAY_FAIL: (&str, &str) = ("usher.dev/allow-pod-failure", "true");

quits! {
    linkerd_with_its_endpoint: linkerd::enabled(), [(4191, SHUTDOWN)], Request, 0;
    linkerd_as_it_is_by_default: linkerd::disabled(), [(4191, SHUTDOWN)], Term, 0;
    linkerd_closed_by_policy: linkerd::closed_by_policy(), [(4191, SHUTDOWN)], Term, 0;
    consul_dataplane: consul::dataplane(), [(20_600, GRACEFUL)], Request, 0;
    consul_dataplane_1_2_would_end_with_1: consul::dataplane_1_2(), [], Term, 0;
    consul_envoy: consul::envoy(), [(19_000, QUIT)], Request, 0;
    kuma_2_13: kuma::v2_13(), [(9901, QUIT)], Request, 0;
    kuma_2_14_has_no_port: kuma::v2_14(), [], Term, 0;
    open_service_mesh: envoy::osm(), [(15_000, QUIT)], Request, 0;
    app_mesh_would_restart_its_envoy: envoy::app_mesh().annotation(MAY_FAIL.0, MAY_FAIL.1), [], Term, 0;
    nginx_mesh: envoy::nginx_mesh().annotation(MAY_FAIL.0, MAY_FAIL.1), [], Term, 0;
    plain_envoy: envoy::plain(), [(9901, QUIT)], Request, 0;
}
