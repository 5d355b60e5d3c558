//! Which strikes there are.

use super::strike::{Again, Blow, COMMANDS, Moment, Strike, Victim};
use crate::clock::Seeded;
use crate::model::standard;
use crate::programs::Agent;

/// How long an undisturbed run takes at most, about, in milliseconds.
const RUN: u64 = 2_500;

/// So many strikes with one signal at one agent, the same for the same seed: every sort of moment and
/// both victims in turn, and the rest by lot.
pub fn strikes(agent: Agent, blow: Blow, count: usize, seed: u64) -> Vec<Strike> {
    let place = Blow::ALL.iter().position(|known| *known == blow);
    let place = place.unwrap_or_default() as u64 * 2 + u64::from(agent == Agent::Codex);
    let lot = Seeded::new(seed.wrapping_mul(6).wrapping_add(place));
    let victims = [Victim::Segno, Victim::Program];
    let strike = |number: usize| Strike {
        agent,
        victim: victims[number % victims.len()],
        blow,
        moment: moment(number / victims.len(), &lot),
        again: None,
    };
    (0..count).map(strike).collect()
}

/// So many strikes, of each of which the resume is struck as well: mostly segno, and mostly with
/// SIGKILL, which leaves nobody the time to tidy up.
pub fn strikes_again(agent: Agent, count: usize, seed: u64) -> Vec<Strike> {
    let place = 6 + u64::from(agent == Agent::Codex);
    let lot = Seeded::new(seed.wrapping_mul(8).wrapping_add(place));
    let victims = [Victim::Segno, Victim::Segno, Victim::Program];
    let blows = [Blow::Kill, Blow::Kill, Blow::Terminate, Blow::Interrupt];
    let strike = |number: usize| Strike {
        agent,
        victim: victims[number % victims.len()],
        blow: blows[number % blows.len()],
        moment: moment(number, &lot),
        again: Some(Again {
            victim: victims[(number + 1) % victims.len()],
            blow: blows[(number / 2) % blows.len()],
            // Those moments of the standard script that are over when it strikes first do not come again.
            moment: match number % 3 {
                0 => Moment::Opened { ms: lot.below(700) },
                1 => Moment::Random {
                    ms: lot.below(RUN / 2),
                },
                _ => Moment::Between {
                    turn: standard().turns() - 1 - usize::try_from(lot.below(3)).unwrap(),
                    ms: lot.below(100),
                },
            },
        }),
    };
    (0..count).map(strike).collect()
}

fn moment(number: usize, lot: &Seeded) -> Moment {
    let below = |bound: usize| usize::try_from(lot.below(bound as u64)).unwrap();
    let turns = standard().turns();
    match number % 5 {
        0 => Moment::Stream {
            turn: below(turns),
            ms: lot.below(150),
        },
        1 => Moment::Tool {
            command: below(COMMANDS.len()),
            ms: lot.below(300),
        },
        2 => Moment::Between {
            turn: below(turns),
            ms: lot.below(200),
        },
        3 => Moment::Random { ms: lot.below(RUN) },
        _ => Moment::Opened { ms: lot.below(700) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_strikes_and_another_draws_others() {
        let drawn = |seed| strikes(Agent::Claude, Blow::Kill, 30, seed);
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let hits = |victim| drawn(1).iter().filter(|one| one.victim == victim).count();
        assert_eq!((hits(Victim::Segno), hits(Victim::Program)), (15, 15));
        assert_ne!(drawn(1), strikes(Agent::Claude, Blow::Terminate, 30, 1));
    }
}
