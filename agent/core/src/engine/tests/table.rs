//! One row for each situation that a pod can be in: what it is made of, what
//! happens, which decisions follow and why.
//!
//! [`scene`] explains the words of a row.

mod cost;
mod deletion;
mod ended;
mod kinds;
mod left_alone;
mod quitting;
mod reported;
mod scene;
mod spoiling;
mod waiting;
mod whole_pod;

use self::scene::Scene;

/// One situation.
struct Row {
    what: &'static str,
    pod: &'static str,
    play: &'static str,
    /// Decisions since the last `;` of the play, in order: `CONTAINER DECISION`
    /// and, after a colon, a piece of the reason; or `RUN STEP`.
    reported: &'static [&'static str],
}

const fn row(
    what: &'static str,
    pod: &'static str,
    play: &'static str,
    reported: &'static [&'static str],
) -> Row {
    Row {
        what,
        pod,
        play,
        reported,
    }
}

/// Plays all rows, and panics with everything that is not as expected.
fn check(rows: &[Row]) {
    check_with(rows, "");
}

/// The same, with what the word `config` loads.
fn check_with(rows: &[Row], config: &str) {
    let wrong = rows.iter().filter_map(|row| {
        let mut scene = Scene::new(row.pod, config);
        for word in row.play.split_whitespace() {
            scene.play(word);
        }
        let reported = scene.reported();
        let same = reported.len() == row.reported.len()
            && reported
                .iter()
                .zip(row.reported)
                .all(|(reported, want)| fits(reported, want));
        let Row {
            what,
            pod,
            play,
            reported: want,
        } = row;
        (!same).then(|| {
            format!("{what}\n  {pod} | {play}\n  want {want:#?}\n  reported {reported:#?}")
        })
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn fits(reported: &str, want: &str) -> bool {
    let (head, reason) = reported.split_once(": ").unwrap_or((reported, ""));
    let (want, piece) = want.split_once(": ").unwrap_or((want, ""));
    head == want && reason.contains(piece)
}
