//! Conversations of agents whose home changed: the variable that names it, `HOME`, or the folder.

use std::fs;
use std::path::Path;

use segno_testkit::sandbox::{ProcessOutput, run_to_end};

use super::*;

/// Where an agent keeps its transcripts.
#[derive(Clone)]
struct Place {
    home: PathBuf,
    /// The value of the agent's own variable.
    variable: Option<PathBuf>,
}

impl Place {
    fn folder(&self, agent: Agent) -> PathBuf {
        let default = match agent {
            Agent::Claude => ".claude",
            Agent::Codex => ".codex",
        };
        let own = self.variable.clone();
        own.unwrap_or_else(|| self.home.join(default))
    }
}

/// A session that was killed in the middle of a command.
struct Moved {
    fixture: Fixture,
    earlier: Place,
}

impl Moved {
    /// Runs an agent that keeps its transcripts in `place`, and kills it in the middle of a command.
    fn killed(agent: Agent, place: impl Fn(&Path) -> Place) -> Self {
        let fixture = Fixture::new(agent);
        let earlier = place(fixture.agent_sandbox.root());
        let moved = Self { fixture, earlier };
        moved.prepare(&moved.earlier);
        let spec = moved.fixture.spec.display().to_string();
        let mut command = moved.command(&moved.earlier, &["run", &spec]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let folder = moved.earlier.folder(agent);
        wait_until("the slow command runs and is written down", || {
            let started = moved.fixture.agent_sandbox.started_commands();
            let said = moved.fixture.events("agent_said");
            let said = said.iter().map(|event| event["entries"].to_string());
            started.contains(&"slow".to_owned())
                && said.collect::<String>().contains("sleep 1")
                && transcripts(&folder).contains("sleep 1")
        });
        moved.fixture.kill(child);
        moved
    }

    /// Creates the folders, with the settings that the agent needs.
    fn prepare(&self, place: &Place) {
        let folder = place.folder(self.fixture.agent);
        fs::create_dir_all(&folder).unwrap();
        let settings = self.fixture.agent_sandbox.codex_home().join("config.toml");
        fs::copy(settings, folder.join("config.toml")).unwrap();
    }

    fn command(&self, place: &Place, words: &[&str]) -> std::process::Command {
        let name = match self.fixture.agent {
            Agent::Claude => "CLAUDE_CONFIG_DIR",
            Agent::Codex => "CODEX_HOME",
        };
        let mut command = self.fixture.command(words);
        command.env("HOME", &place.home);
        match &place.variable {
            Some(folder) => command.env(name, folder),
            None => command.env_remove(name),
        };
        command
    }

    fn segno(&self, place: &Place, words: &[&str]) -> ProcessOutput {
        run_to_end(self.command(place, words))
    }

    /// Resumes in `place` to the end, with this strategy and source, as the plan announces.
    fn assert_resumes(&self, place: &Place, strategy: &str, source: Option<&str>) {
        let agent = self.fixture.agent;
        self.prepare(place);
        let plan = self.segno(place, &["resume", "task", "--dry-run", "--json"]);
        let plan = plan.expect_success();
        let step = &plan.json()[0]["steps"][0];
        assert_eq!(step["strategy"], strategy, "{agent:?} {plan:?}");
        assert_eq!(step["copied_from"].as_str(), source, "{agent:?} {plan:?}");
        let plan = self.segno(place, &["resume", "task", "--dry-run"]);
        let resumed = self.segno(place, &["resume", "task"]).expect_success();
        for (output, words) in [
            (&plan.stdout, "the transcript comes from "),
            (&resumed.stderr, " was restored from "),
        ] {
            let expected = source.map(|source| format!("{words}{source}\n"));
            match expected {
                Some(expected) => assert!(output.contains(&expected), "{agent:?} {output}"),
                None => assert!(!output.contains(words), "{agent:?} {output}"),
            }
        }
        self.fixture.assert_done();
        let opened = self.fixture.opened();
        assert_eq!(opened.len(), 2, "{agent:?} {resumed:?}");
        assert_eq!(opened[1].1, strategy, "{agent:?}");
        // A copy of a transcript that is in the agent's own folder has a new id.
        let is_copied = strategy == "restored" && source.is_none();
        assert_eq!(opened[1].0 != opened[0].0, is_copied, "{agent:?}");
        let paid = self.fixture.server.paid_turns("standard");
        assert_eq!(paid, [0, 1, 2, 3, 4, 5, 6, 7, 8], "{agent:?}");
        let now = transcripts(&place.folder(agent));
        assert!(now.contains("[standard:8]"), "{agent:?}");
    }
}

/// Everything in the transcripts below a folder.
fn transcripts(folder: &Path) -> String {
    let below = ["projects", "sessions"].map(|name| folder.join(name));
    let folders = below.iter().filter(|folder| folder.exists());
    folders
        .flat_map(|folder| files(folder).into_values())
        .collect()
}

fn text(path: &Path) -> Option<&str> {
    path.to_str()
}

#[test]
fn transcript_is_found_after_the_variable_was_unset() {
    for agent in Agent::ALL {
        let moved = Moved::killed(agent, |root| Place {
            home: root.join("home"),
            variable: Some(root.join("own")),
        });
        let later = Place {
            variable: None,
            ..moved.earlier.clone()
        };
        let own = moved.earlier.folder(agent);
        moved.assert_resumes(&later, "restored", text(&own));
    }
}

#[test]
fn transcript_is_found_after_the_variable_was_changed() {
    for agent in Agent::ALL {
        for before in [None, Some("own")] {
            let moved = Moved::killed(agent, |root| Place {
                home: root.join("home"),
                variable: before.map(|name| root.join(name)),
            });
            let later = Place {
                variable: Some(moved.fixture.agent_sandbox.root().join("other")),
                ..moved.earlier.clone()
            };
            let earlier = moved.earlier.folder(agent);
            moved.assert_resumes(&later, "restored", text(&earlier));
        }
    }
}

#[test]
fn transcript_is_found_below_a_renamed_home() {
    for agent in Agent::ALL {
        // The agent's default folder moves with the home.
        let moved = Moved::killed(agent, |root| Place {
            home: root.join("home"),
            variable: None,
        });
        let home = moved.fixture.agent_sandbox.root().join("moved");
        fs::rename(&moved.earlier.home, &home).unwrap();
        let later = Place {
            home,
            variable: None,
        };
        // Codex looks for a transcript where it was.
        let strategy = match agent {
            Agent::Claude => "native",
            Agent::Codex => "restored",
        };
        moved.assert_resumes(&later, strategy, None);
        // Another folder in the home does, too, but nothing names it any more.
        for later_variable in [None, Some("home/config/agent")] {
            let moved = Moved::killed(agent, |root| Place {
                home: root.join("home"),
                variable: Some(root.join("home/config/agent")),
            });
            let root = moved.fixture.agent_sandbox.root();
            let home = root.join("moved");
            fs::rename(&moved.earlier.home, &home).unwrap();
            let source = home.join("config/agent");
            let later = Place {
                home,
                variable: later_variable.map(|name| root.join(name)),
            };
            moved.assert_resumes(&later, "restored", text(&source));
        }
    }
}

#[test]
fn transcript_of_a_deleted_home_is_restored_from_a_checkpoint() {
    for agent in Agent::ALL {
        let moved = Moved::killed(agent, |root| Place {
            home: root.join("home"),
            variable: Some(root.join("own")),
        });
        let later = Place {
            variable: None,
            ..moved.earlier.clone()
        };
        // A checkpoint that is taken without the variable has the transcript, too.
        let words = ["checkpoint", "create", "task", "--json"];
        let taken = moved.segno(&later, &words).expect_success();
        let id = taken.json()[0]["checkpoint"].as_str().unwrap().to_owned();
        fs::remove_dir_all(moved.earlier.folder(agent)).unwrap();
        moved.assert_resumes(&later, "restored", Some(&format!("checkpoint {id}")));
    }
}
