//! What is done to a running agent, and when.

use std::fmt;
use std::str::FromStr;

use rustix::process::Signal;

use super::obstacle::Obstacle;
use crate::programs::Agent;

/// How segno drives an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Driver {
    /// With the driver for this agent.
    Own,
    /// Through its adapter of the Agent Client Protocol.
    Acp,
}

impl Driver {
    pub const ALL: [Self; 2] = [Self::Own, Self::Acp];

    /// What follows the agent's name.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Own => "",
            Self::Acp => "-acp",
        }
    }
}

/// Which process a strike hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Victim {
    Segno,
    /// The agent's process, below its process guard.
    Program,
    /// The process guard of the agent, always with SIGKILL.
    Guard,
    /// Segno together with the process guard, always with SIGKILL: nobody is left to end the agent.
    SegnoAndGuard,
}

impl Victim {
    pub const ALL: [Self; 4] = [Self::Segno, Self::Program, Self::Guard, Self::SegnoAndGuard];

    const fn word(self) -> &'static str {
        match self {
            Self::Segno => "segno",
            Self::Program => "program",
            Self::Guard => "guard",
            Self::SegnoAndGuard => "segno-and-guard",
        }
    }
}

/// The signal of a strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StrikeSignal {
    /// SIGKILL: no process can handle it.
    Kill,
    /// SIGTERM: requests an orderly end.
    Terminate,
    /// SIGINT, as from Ctrl-C. Segno gets it twice: once would only mean *after this step*.
    Interrupt,
}

impl StrikeSignal {
    pub const ALL: [Self; 3] = [Self::Kill, Self::Terminate, Self::Interrupt];

    pub const fn signal(self) -> Signal {
        match self {
            Self::Kill => Signal::KILL,
            Self::Terminate => Signal::TERM,
            Self::Interrupt => Signal::INT,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "SIGKILL",
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Terminate => "term",
            Self::Interrupt => "int",
        }
    }
}

/// The instant of a strike: an observable condition, and a delay in milliseconds after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StrikeTime {
    /// The answer of a turn is being sent, slowly.
    Stream {
        /// Which turn of the script.
        turn: usize,
        ms: u64,
    },
    /// A command has started.
    Tool {
        /// Index into `COMMANDS`.
        command: usize,
        ms: u64,
    },
    /// The answer of a turn was sent completely.
    Between {
        /// Which turn of the script.
        turn: usize,
        ms: u64,
    },
    /// The journal names the conversation.
    Opened { ms: u64 },
    /// The agent's process was started.
    Random { ms: u64 },
}

impl StrikeTime {
    /// The same with half the delay.
    pub(super) const fn earlier(self) -> Self {
        match self {
            Self::Stream { turn, ms } => Self::Stream { turn, ms: ms / 2 },
            Self::Tool { command, ms } => Self::Tool {
                command,
                ms: ms / 2,
            },
            Self::Between { turn, ms } => Self::Between { turn, ms: ms / 2 },
            Self::Opened { ms } => Self::Opened { ms: ms / 2 },
            Self::Random { ms } => Self::Random { ms: ms / 2 },
        }
    }
}

/// The commands of the standard script that leave a sign when they start.
pub(super) const COMMANDS: [&str; 3] = ["place", "slow", "count"];

/// The turns that ask for them.
pub(super) const COMMAND_TURNS: [usize; 3] = [1, 4, 7];

/// One disturbance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strike {
    pub agent: Agent,
    pub driver: Driver,
    pub victim: Victim,
    pub strike_signal: StrikeSignal,
    pub time: StrikeTime,
    /// A second strike, at the resume.
    pub again: Option<Again>,
    /// What stands in the way of the first resume.
    pub obstacle: Option<Obstacle>,
}

/// A second disturbance, of the resume after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Again {
    pub victim: Victim,
    pub strike_signal: StrikeSignal,
    pub time: StrikeTime,
}

impl Strike {
    /// The agent's name, with how it is driven.
    pub(super) fn agent_name(&self) -> String {
        format!("{}{}", self.agent.cli_name(), self.driver.suffix())
    }

    /// The first strike alone.
    pub(super) const fn first(self) -> Again {
        Again {
            victim: self.victim,
            strike_signal: self.strike_signal,
            time: self.time,
        }
    }
}

impl fmt::Display for StrikeTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream { turn, ms } => write!(f, "stream-{turn}:{ms}"),
            Self::Tool { command, ms } => write!(f, "{}:{ms}", COMMANDS[*command]),
            Self::Between { turn, ms } => write!(f, "between-{turn}:{ms}"),
            Self::Opened { ms } => write!(f, "opened:{ms}"),
            Self::Random { ms } => write!(f, "random:{ms}"),
        }
    }
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let victim = self.victim.word();
        write!(f, "{victim}/{}/{}", self.strike_signal.word(), self.time)
    }
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.agent_name(), self.first())?;
        if let Some(again) = &self.again {
            write!(f, "+{again}")?;
        }
        match self.obstacle {
            Some(obstacle) => write!(f, "~{}", obstacle.word()),
            None => Ok(()),
        }
    }
}

impl FromStr for Again {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<&str> = text.split('/').collect();
        let [victim, strike_signal, time] = words[..] else {
            return Err(());
        };
        let strike_signal = StrikeSignal::ALL
            .into_iter()
            .find(|known| known.word() == strike_signal);
        let victim = Victim::ALL.into_iter().find(|known| known.word() == victim);
        Ok(Self {
            victim: victim.ok_or(())?,
            strike_signal: strike_signal.ok_or(())?,
            time: parse_time(time).ok_or(())?,
        })
    }
}

impl FromStr for Strike {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "`{text}` is not AGENT/STRIKE or AGENT/STRIKE+STRIKE, where AGENT is claude|codex|claude-acp|codex-acp, with ~OBSTACLE or without, where STRIKE is segno|program|guard|segno-and-guard/kill|term|int/MOMENT:MS, MOMENT is stream-TURN, between-TURN, {}, opened or random, and OBSTACLE is {}",
                COMMANDS.join(", "),
                Obstacle::ALL.map(Obstacle::word).join(" or ")
            )
        };
        let (agent, rest) = text.split_once('/').ok_or_else(unknown)?;
        let (agent, driver) = match agent.strip_suffix(Driver::Acp.suffix()) {
            Some(agent) => (agent, Driver::Acp),
            None => (agent, Driver::Own),
        };
        let agent = Agent::ALL
            .into_iter()
            .find(|known| known.cli_name() == agent);
        let (rest, obstacle) = match rest.split_once('~') {
            Some((rest, word)) => {
                let mut all = Obstacle::ALL.into_iter();
                let obstacle = all.find(|known| known.word() == word);
                (rest, Some(obstacle.ok_or_else(unknown)?))
            }
            None => (rest, None),
        };
        let mut parts = rest.split('+').map(str::parse);
        let first: Again = parts.next().ok_or_else(unknown)?.map_err(|()| unknown())?;
        let again = parts.next().transpose().map_err(|()| unknown())?;
        if parts.next().is_some() {
            return Err(unknown());
        }
        Ok(Self {
            agent: agent.ok_or_else(unknown)?,
            driver,
            victim: first.victim,
            strike_signal: first.strike_signal,
            time: first.time,
            again,
            obstacle,
        })
    }
}

fn parse_time(text: &str) -> Option<StrikeTime> {
    let (what, ms) = text.split_once(':')?;
    let ms = ms.parse().ok()?;
    if let Some(command) = COMMANDS.iter().position(|name| *name == what) {
        return Some(StrikeTime::Tool { command, ms });
    }
    match what.split_once('-') {
        Some(("stream", turn)) => turn
            .parse()
            .ok()
            .map(|turn| StrikeTime::Stream { turn, ms }),
        Some(("between", turn)) => turn
            .parse()
            .ok()
            .map(|turn| StrikeTime::Between { turn, ms }),
        None if what == "opened" => Some(StrikeTime::Opened { ms }),
        None if what == "random" => Some(StrikeTime::Random { ms }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strike_notation_round_trips() {
        for words in [
            "claude/segno/kill/stream-3:40",
            "codex/program/term/slow:300",
            "claude/program/int/between-7:0",
            "codex/segno/int/opened:12",
            "codex/segno/kill/random:1500",
            "claude/segno/kill/slow:100+program/kill/opened:40",
            "codex/guard/kill/slow:100~no-key",
            "claude/segno-and-guard/kill/random:100~home-renamed",
            "codex/segno/kill/slow:100~variable-changed",
            "claude-acp/segno/kill/slow:100~held",
        ] {
            assert_eq!(words.parse::<Strike>().unwrap().to_string(), words);
        }
        for words in [
            "claude/segno/kill",
            "gemini/segno/kill/random:1",
            "claude/segno/stop/random:1",
            "claude/segno/kill/random:1~rain",
            "claude/segno/kill/stream:1",
            "claude/segno/kill/random:x",
            "claude/segno/kill/random:1+segno/kill",
        ] {
            words.parse::<Strike>().unwrap_err();
        }
    }
}
