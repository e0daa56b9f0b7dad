use usher_tests::synthetic::catalog::dapr;

const SHUTDOWN: &str = "POST /v1.0/shutdown";

quits! {
    without_a_token: dapr::open(), [(3500, SHUTDOWN)], Request, 0;
    with_a_token: dapr::with_a_token(), [(3500, SHUTDOWN)], Request, 0;
    hidden_by_an_allow_list: dapr::hidden(), [(3500, SHUTDOWN)], Term, 0;
}
