//! Plans the strikes.

use super::obstacle::Obstacle;
use super::strike::{Again, COMMANDS, Driver, Strike, StrikeSignal, StrikeTime, Victim};
use crate::clock::Seeded;
use crate::model::standard;
use crate::programs::Agent;

/// The approximate maximum duration of an undisturbed run, in milliseconds.
const RUN: u64 = 2_500;

/// `count` strikes with one signal at one agent, the same for the same seed: every kind of instant
/// and both victims in turn, and the rest at random.
pub fn strikes(agent: Agent, strike_signal: StrikeSignal, count: usize, seed: u64) -> Vec<Strike> {
    let index = StrikeSignal::ALL
        .iter()
        .position(|known| *known == strike_signal);
    let index = index.unwrap_or_default() as u64 * 2 + u64::from(agent == Agent::Codex);
    let rng = Seeded::new(seed.wrapping_mul(6).wrapping_add(index));
    let victims = [Victim::Segno, Victim::Program];
    let strike = |number: usize| Strike {
        agent,
        victim: victims[number % victims.len()],
        strike_signal,
        time: time(number / victims.len(), &rng),
        again: None,
        driver: Driver::Own,
        obstacle: None,
    };
    (0..count).map(strike).collect()
}

/// `count` strikes at segno and its guard, whose first resume meets each obstacle in turn, or none; and
/// strikes at the guard alone, which the run itself survives. Behind an adapter, segno and its guard are
/// not struck together: the kernel then ends the adapter, but not the agent below it, which continues
/// without tools until the next run ends it (decision 0009).
pub fn strikes_with_obstacles(
    agent: Agent,
    driver: Driver,
    count: usize,
    seed: u64,
) -> Vec<Strike> {
    let first = match driver {
        Driver::Own => 8,
        Driver::Acp => 6,
    };
    let rng = Seeded::new(
        seed.wrapping_mul(10)
            .wrapping_add(first + u64::from(agent == Agent::Codex)),
    );
    let met = [Victim::Segno, Victim::SegnoAndGuard];
    let met = met.map(|victim| Obstacle::ALL.map(|obstacle| (victim, Some(obstacle))));
    let free = [Victim::Guard, Victim::SegnoAndGuard].map(|victim| (victim, None));
    let met = met.concat().into_iter().chain(free);
    let applies = |(victim, obstacle): &(Victim, Option<Obstacle>)| {
        driver == Driver::Own
            || *victim != Victim::SegnoAndGuard
                && obstacle.is_none_or(|one| one.can_be_met_with(agent, driver))
    };
    let pairs: Vec<(Victim, Option<Obstacle>)> = met.filter(applies).collect();
    let strike = |number: usize| Strike {
        agent,
        victim: pairs[number % pairs.len()].0,
        strike_signal: StrikeSignal::Kill,
        time: time(number / pairs.len() + number, &rng),
        again: None,
        driver,
        obstacle: pairs[number % pairs.len()].1,
    };
    (0..count).map(strike).collect()
}

/// `count` strikes whose resume is struck as well: mostly segno, and mostly with SIGKILL, which
/// leaves no time to clean up.
pub fn strikes_again(agent: Agent, count: usize, seed: u64) -> Vec<Strike> {
    let index = 6 + u64::from(agent == Agent::Codex);
    let rng = Seeded::new(seed.wrapping_mul(8).wrapping_add(index));
    let victims = [Victim::Segno, Victim::Segno, Victim::Program];
    let strike_signals = [
        StrikeSignal::Kill,
        StrikeSignal::Kill,
        StrikeSignal::Terminate,
        StrikeSignal::Interrupt,
    ];
    let strike = |number: usize| Strike {
        agent,
        victim: victims[number % victims.len()],
        strike_signal: strike_signals[number % strike_signals.len()],
        time: time(number, &rng),
        again: Some(Again {
            victim: victims[(number + 1) % victims.len()],
            strike_signal: strike_signals[(number / 2) % strike_signals.len()],
            // Instants of the standard script that are over when the first strike comes do not come
            // again.
            time: match number % 3 {
                0 => StrikeTime::Opened { ms: rng.below(700) },
                1 => StrikeTime::Random {
                    ms: rng.below(RUN / 2),
                },
                _ => StrikeTime::Between {
                    turn: standard().turns() - 1 - usize::try_from(rng.below(3)).unwrap(),
                    ms: rng.below(100),
                },
            },
        }),
        driver: Driver::Own,
        obstacle: None,
    };
    (0..count).map(strike).collect()
}

fn time(number: usize, rng: &Seeded) -> StrikeTime {
    let below = |bound: usize| usize::try_from(rng.below(bound as u64)).unwrap();
    let turns = standard().turns();
    match number % 5 {
        0 => StrikeTime::Stream {
            turn: below(turns),
            ms: rng.below(150),
        },
        1 => StrikeTime::Tool {
            command: below(COMMANDS.len()),
            ms: rng.below(300),
        },
        2 => StrikeTime::Between {
            turn: below(turns),
            ms: rng.below(200),
        },
        3 => StrikeTime::Random { ms: rng.below(RUN) },
        _ => StrikeTime::Opened { ms: rng.below(700) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strikes_depend_only_on_the_seed() {
        let drawn = |seed| strikes(Agent::Claude, StrikeSignal::Kill, 30, seed);
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        for (driver, expected) in [(Driver::Own, 12), (Driver::Acp, 4)] {
            let obstructed = strikes_with_obstacles(Agent::Codex, driver, 12, 1);
            let pairs = obstructed.iter().map(|one| (one.victim, one.obstacle));
            let pairs: std::collections::BTreeSet<_> = pairs.collect();
            assert_eq!(pairs.len(), expected);
        }
        let hits = |victim| drawn(1).iter().filter(|one| one.victim == victim).count();
        assert_eq!((hits(Victim::Segno), hits(Victim::Program)), (15, 15));
        assert_ne!(
            drawn(1),
            strikes(Agent::Claude, StrikeSignal::Terminate, 30, 1)
        );
    }
}
