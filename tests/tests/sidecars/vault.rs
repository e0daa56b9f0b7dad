use usher_tests::synthetic::catalog::vault;

quits! {
    with_the_endpoint: vault::with_the_endpoint(), [(8200, "POST /agent/v1/quit")], Request, 0;
    as_pid_1: vault::plain(), [], Term, 0;
    below_a_shell_that_ignores_sigterm: vault::below_a_shell(), [], Term, 0;
}
