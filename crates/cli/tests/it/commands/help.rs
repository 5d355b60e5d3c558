use std::fmt::Write;

use crate::commands::tidy;
use crate::sandbox;

#[test]
fn the_whole_help_text() {
    let sandbox = sandbox();
    let commands = [
        "",
        "run",
        "work",
        "resume",
        "chat",
        "validate",
        "plan",
        "explain",
        "sessions",
        "sessions list",
        "sessions show",
        "sessions search",
        "sessions delete",
        "sessions trash",
        "sessions restore",
        "sessions cleanup",
        "sessions export",
        "sessions import",
        "sessions fork",
        "checkpoint",
        "checkpoint create",
        "checkpoint list",
        "checkpoint show",
        "checkpoint diff",
        "checkpoint verify",
        "checkpoint restore",
        "checkpoint prune",
        "checkpoint export",
        "checkpoint import",
        "import",
        "gc",
        "status",
        "logs",
        "answer",
        "cancel",
        "watch",
        "hooks",
        "hooks install",
        "hooks uninstall",
        "hooks status",
        "mcp",
        "mcp config",
        "doctor",
        "demo",
        "completion",
    ];
    let mut all = String::new();
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let said = sandbox.segno(&words).good();
        assert_eq!(said.stderr, "");
        let text: Vec<&str> = said.stdout.lines().map(str::trim_end).collect();
        let text = text.join("\n");
        writeln!(
            all,
            "$ segno {}\n\n{}\n\n",
            words.join(" "),
            text.trim_end()
        )
        .unwrap();
    }
    insta::assert_snapshot!(all, @r"
    $ segno --help

    Keeps the work of AI agents alive: kill it anywhere, and it goes on where it stopped

    Usage: segno <COMMAND>

    Commands:
      run         Run a workflow
      work        Work through a plan: one fresh agent and one commit for each task
      resume      Go on where a session stopped
      chat        Talk with an agent: a conversation that survives
      handoff     Hand a session that stopped in the middle of a step to another agent
      validate    Check a workflow's spec without running it
      plan        Show what a workflow will run, in which order, without running it
      explain     Explain a workflow's spec in words: what it wants, who is asked, what limits it, what
                  it writes
      sessions    List, show, search, delete, restore, clean up, export, import, move and fork sessions
      checkpoint  Keep the files of a session's workspace, compare them, and bring them back
      import      Adopt conversations that Claude Code or Codex left behind, as sessions
      gc          Free the room of files that no checkpoint names any more, here and in the storage
      key         Make a key that the files of checkpoints are encrypted with
      status      Show what is running and what waits to be resumed, or how far a plan is
      logs        Show what happened in a session, entry by entry
      answer      Answer what a session asks, or see what it asks
      note        Note what whoever goes on with a session must know: decisions, errors, feedback,
                  things to do
      context     Show what an agent is told that knows nothing of the work before it, or edit it
      pause       Pause a session that is being run, wherever it runs
      cancel      Give a session up. It cannot be resumed afterwards
      recover     Find sessions whose run was lost, keep what it left behind, and mark them as
                  interrupted
      watch       Keep the sessions of Claude Code and Codex while they go on
      hooks       Have Claude Code and Codex tell of sessions that Segno did not start
      mcp         Serve an agent over the Model Context Protocol, on stdin and stdout
      doctor      Verify everything that is kept, and name what is damaged
      demo        Watch a run being killed and coming back. Needs no network and no key
      completion  Print a completion script for a shell
      help        Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Sessions are kept in $SEGNO_HOME, or in ~/.local/state/segno. Exit codes: 0 ok, 2 usage, 3 spec
    invalid, 10 run failed, 12 file, 17 session, 18 not supported, 19 waiting for a person, 20 budget
    reached, 21 held by another run, 22 changed and refused, 23 verification failed, 70 internal, 130
    paused, 143 ended by SIGTERM or SIGHUP.


    $ segno run --help

    Run a workflow.

    Every step's result is on the disk before the next step begins. If the run is killed, `segno resume`
    goes on with the first unfinished step. Ctrl-C stops after the step in flight, a second Ctrl-C at
    once; both can be resumed.

    Usage: segno run [OPTIONS] [SPEC]

    Arguments:
      [SPEC]
              The workflow's spec, YAML or JSON

    Options:
          --var <NAME=VALUE>
              Set a variable of the workflow (repeatable)

          --name <NAME>
              What to call the session [default: the workflow's name, numbered]

          --resume <SESSION>
              Go on with this session instead of starting one

          --auto-resume
              Go on with the newest unfinished session of this spec in this folder, if there is one

          --no-save-session
              Keep nothing: what is killed is lost

          --on-change <POLICY>
              What to do about finished steps that an edited spec asks differently [default: warn]

              Possible values:
              - warn:   Say which, keep their results, go on with the edited spec
              - rerun:  Run them again
              - fail:   Refuse to go on
              - pinned: Go on with the spec as it was

          --in-flight <POLICY>
              What to do about a step that was in flight when its run was lost [default: as the spec
              says]

              Possible values:
              - repeat: Ask it again
              - stop:   Stop and let a person decide

          --permissions <WHAT>
              What agents' programs may do [default: as the settings say, else edit]

              Possible values:
              - read: Look, and change nothing
              - edit: Change files in the workspace
              - all:  Everything, unasked

          --out <FOLDER>
              Where artifacts go

              [default: artifacts]

          --force
              Let artifacts replace files that this session did not write

          --json
              Print events as JSON, one per line

      -h, --help
              Print help (see a summary with '-h')


    $ segno work --help

    Work through a plan: one fresh agent and one commit for each task.

    The text is an issue, for which an agent makes a plan that you approve; or a plan itself, as a
    Markdown checklist (`- [ ] T2: TITLE (after T1)`). The work is done on a branch `segno/NAME` in a
    folder beside the repository; yours is not touched. Each task is reviewed by another agent before it
    is committed, and sent back if need be. `segno pause` stops between tasks, `segno resume` goes on
    with the next, `segno answer` approves and rejects, `segno status NAME` shows the plan.

    Usage: segno work [OPTIONS] <ISSUE|FILE>

    Arguments:
      <ISSUE|FILE>
              An issue or a plan: a text, the name of a file that has one, or `-` to read it from stdin

    Options:
          --agent <AGENT>
              Who does the tasks: `claude`, `codex`, or an agent of the spec [default: as the settings
              say, else claude]

          --planner <AGENT>
              Who makes the plan [default: who does the tasks]

          --reviewer <AGENT>
              Who reviews [default: as the settings say, else who does the tasks, in another
              conversation]

          --no-review
              Commit tasks without a review

          --spec <FILE>
              A spec whose agents, limits and settings are used

          --max-revisions <N>
              How often a reviewer may send a task back before you are asked [default: 2]

          --approve <WHAT>
              What you are asked about: the plan that an agent made, or also each task before it is
              committed

              Possible values:
              - plan:  A plan that an agent made
              - tasks: The same, and each task
              - none:  Nothing, unless a reviewer does not give way

              [default: plan]

      -y, --yes
              Approve the plan, whatever it is; the same as `--approve none`

          --plan-only
              Print the plan, and do not work on it

          --pause-after <TASKS>
              Pause after so many tasks

          --name <NAME>
              What to call the session and its branch [default: like the issue, numbered]

          --in-place
              Work in this folder, on the branch that is checked out here

          --into <FOLDER>
              Work in this folder, which must be empty or not there yet [default: beside the repository]

          --permissions <WHAT>
              What agents' programs may do [default: as the settings say, else edit]

              Possible values:
              - read: Look, and change nothing
              - edit: Change files in the workspace
              - all:  Everything, unasked

          --json
              Print events as JSON, one per line

      -h, --help
              Print help (see a summary with '-h')


    $ segno resume --help

    Go on where a session stopped.

    Finished steps are not run again. A step that was in flight when the run was lost goes on: a model
    from what the journal has, an agent's program from its own conversation by the best way that there
    is, anything else by asking again, unless the spec says that a person decides.

    Usage: segno resume [OPTIONS] [SESSION]

    Arguments:
      [SESSION]
              The session: its id, its name, or the beginning of either [default: the newest of this
              folder]

    Options:
          --plan
              Show what would be done, what would be lost and what it may cost, and do nothing

          --fork
              Leave the session as it is, and go on with a copy of it

          --from <CHECKPOINT>
              Go back to a checkpoint: a copy of the session as it was then goes on, with the files of
              that moment, and what they replace is kept in a checkpoint first

          --into <FOLDER>
              Let the copy work in this folder, with its own files [default: the session's folder]

          --with <AGENT>
              Let another agent go on: `claude`, `codex`, or an agent of the spec

          --rung <RUNG>
              The best way that may be taken [default: native]

              Possible values:
              - native:   The agent's own conversation, as it is
              - repaired: The same, after its record was put in order
              - rehomed:  The same, from a kept copy of its record
              - compiled: A fresh conversation that is told what was done

          --say <TEXT>
              Tell the agent this, too

          --on-drift <POLICY>
              What to do if others changed the workspace since [default: warn]

              Possible values:
              - warn:   Say so, and go on
              - refuse: Refuse to go on
              - accept: Go on

          --on-limit <POLICY>
              What to do if a provider says that its limit is reached [default: as the spec says]

              Possible values:
              - wait:  Wait until it is lifted
              - pause: Pause the session
              - ask:   Ask at once, whatever an earlier run was told; then as the spec says

          --on-change <POLICY>
              What to do about finished steps that an edited spec asks differently [default: warn]

              Possible values:
              - warn:   Say which, keep their results, go on with the edited spec
              - rerun:  Run them again
              - fail:   Refuse to go on
              - pinned: Go on with the spec as it was

          --in-flight <POLICY>
              What to do about a step that was in flight when its run was lost [default: as the spec
              says]

              Possible values:
              - repeat: Ask it again
              - stop:   Stop and let a person decide

          --permissions <WHAT>
              What agents' programs may do [default: as the settings say, else edit]

              Possible values:
              - read: Look, and change nothing
              - edit: Change files in the workspace
              - all:  Everything, unasked

          --json
              Print events as JSON, one per line

      -h, --help
              Print help (see a summary with '-h')


    $ segno chat --help

    Talk with an agent: a conversation that survives.

    With a message, or with text on stdin, it is one exchange: the answer is printed. Without, messages
    are typed at a prompt, and `/help` says what else can be typed there. All that is said is kept, and
    any agent can go on with it: after a kill, after a reboot, with or without the agent's own record.

    Usage: segno chat [OPTIONS] [MESSAGE]

    Arguments:
      [MESSAGE]
              What to say; `-` takes it from stdin

    Options:
          --agent <NAME>
              Who is spoken to: `claude`, `codex`, or an agent of the spec [default: as config.toml
              says]

          --spec <FILE>
              The spec that names the agent [default: as config.toml says]

          --session <SESSION>
              Go on with this chat instead of opening one

          --continue
              Go on with the newest chat of this folder

          --clear
              Forget what was said before: no agent is told of it any more; without a message, that is
              all

          --name <NAME>
              What to call the chat [default: chat, numbered]

          --max-turns <N>
              How often a model may answer within one exchange, with tools or because its answer was cut
              off

              [default: 20]

          --permissions <WHAT>
              What agents' programs may do [default: as the settings say, else edit]

              Possible values:
              - read: Look, and change nothing
              - edit: Change files in the workspace
              - all:  Everything, unasked

          --json
              Print the answer and what it took as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno validate --help

    Check a workflow's spec without running it

    Usage: segno validate [OPTIONS] <SPEC>

    Arguments:
      <SPEC>  The spec, YAML or JSON

    Options:
          --json  Print the answer as JSON
      -h, --help  Print help


    $ segno plan --help

    Show what a workflow will run, in which order, without running it

    Usage: segno plan [OPTIONS] <SPEC>

    Arguments:
      <SPEC>
              The spec, YAML or JSON

    Options:
          --format <FORMAT>
              How to show it

              Possible values:
              - text:    A table
              - json:    One JSON object
              - mermaid: A graph in the language of Mermaid

              [default: text]

          --json
              The same as `--format json`

      -h, --help
              Print help (see a summary with '-h')


    $ segno explain --help

    Explain a workflow's spec in words: what it wants, who is asked, what limits it, what it writes

    Usage: segno explain [OPTIONS] <SPEC>

    Arguments:
      <SPEC>  The spec, YAML or JSON

    Options:
          --json  Print one JSON object
      -h, --help  Print help


    $ segno sessions --help

    List, show, search, delete, restore, clean up, export, import, move and fork sessions

    Usage: segno sessions <COMMAND>

    Commands:
      list     List the sessions of this folder, newest first
      show     Show one session: where it stands, its steps, and what it took
      search   Find what was asked, answered and said in sessions of this folder, newest first
      delete   Move a session to the trash, from where it can be restored
      trash    List what is in the trash, or empty it
      restore  Take a session out of the trash
      cleanup  Move old sessions that are over to the trash, and empty it of what is old
      export   Write a session to one file, or with its files to a folder, which `sessions import` reads
      import   Make a session out of a file or a folder that `sessions export` wrote
      move     Let a session go on in another folder, because its own was renamed or moved
      fork     Make a new session out of what another has done
      help     Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help


    $ segno sessions list --help

    List the sessions of this folder, newest first

    Usage: segno sessions list [OPTIONS]

    Options:
      -a, --all              Those of all folders, and chats that expired
          --status <STATUS>  Only those with this status [possible values: pending, running, waiting,
                             paused, interrupted, completed, failed, cancelled, expired]
          --json             Print them as JSON, one per line
      -h, --help             Print help


    $ segno sessions show --help

    Show one session: where it stands, its steps, and what it took

    Usage: segno sessions show [OPTIONS] <SESSION>

    Arguments:
      <SESSION>  The session: its id, its name, or the beginning of either

    Options:
      -a, --all   Every step, however many are finished
          --json  Print it as JSON
      -h, --help  Print help


    $ segno sessions search --help

    Find what was asked, answered and said in sessions of this folder, newest first

    Usage: segno sessions search [OPTIONS] <TEXT>

    Arguments:
      <TEXT>  The text, in upper or lower case

    Options:
      -a, --all           In sessions of all folders
          --agent <NAME>  Only where this agent works
          --limit <N>     How many finds are shown [default: 20]
          --json          Print them as JSON, one per line
      -h, --help          Print help


    $ segno sessions delete --help

    Move a session to the trash, from where it can be restored.

    A damaged session goes, too, if it is named by its whole id.

    Usage: segno sessions delete [OPTIONS] <SESSION>

    Arguments:
      <SESSION>
              The session: its id, its name, or the beginning of either

    Options:
          --now
              Delete it for good, also out of the trash

      -y, --yes
              Do not ask, with `--now`

          --dry-run
              Only say what would be deleted

          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno sessions trash --help

    List what is in the trash, or empty it

    Usage: segno sessions trash [OPTIONS]

    Options:
          --empty    Delete everything in it for good, and blobs that no session refers to
      -y, --yes      Do not ask, with `--empty`
          --dry-run  Only say what would be deleted, with `--empty`
          --json     Print it as JSON, one line per session
      -h, --help     Print help


    $ segno sessions restore --help

    Take a session out of the trash

    Usage: segno sessions restore [OPTIONS] <SESSION>

    Arguments:
      <SESSION>  The session: its id, its name, or the beginning of either

    Options:
          --name <NAME>  What to call it from now on [default: its name, numbered if another has it]
          --json         Print the answer as JSON
      -h, --help         Print help


    $ segno sessions cleanup --help

    Move old sessions that are over to the trash, and empty it of what is old.

    Chats in which nothing was said for long are archived: they are as good as over until someone goes
    on with them. Completed sessions are kept unless `--completed` is given, and sessions that can still
    go on are kept unless `--unfinished` is. What is running is never deleted. What has been in the
    trash for longer than `trash.keep_days` goes for good.

    Usage: segno sessions cleanup [OPTIONS]

    Options:
          --max-age-days <DAYS>
              How old the last entry must be [default: 7, or as config.toml says]

          --completed
              Completed ones, too

          --unfinished
              Paused, interrupted and failed ones, too

          --dry-run
              Only say what would be deleted

          --json
              Print the answer as JSON, one line per session

      -h, --help
              Print help (see a summary with '-h')


    $ segno sessions export --help

    Write a session to one file, or with its files to a folder, which `sessions import` reads.

    The file has every journal entry as it is stored, and the long texts that they refer to. It is for
    your eyes only (mode 0600): it says everything that was asked and answered. A session that is being
    run is written up to this moment.

    With `--bundle` a checkpoint is taken, and written to a folder: the session, the files of its
    workspace, and the records that Claude Code and Codex keep of its conversations, so that it can go
    on elsewhere as if it had been there all the time.

    Usage: segno sessions export [OPTIONS] <SESSION>

    Arguments:
      <SESSION>
              The session: its id, its name, or the beginning of either

    Options:
          --bundle
              Take the files and the conversations of agents along

      -o, --output <PATH>
              Where to, or `-` for stdout [default: NAME.segno or NAME.bundle in this folder]

          --force
              Replace the file if there is one

          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno sessions import --help

    Make a session out of a file or a folder that `sessions export` wrote.

    Everything is verified before anything is written. Finished steps stay finished; a session that was
    being run when it was exported stands as interrupted. Import only what you trust: resuming a session
    does what its spec says.

    `--into` says where it goes on. The files of a folder are brought there first; what was there is
    kept in a checkpoint, and files that the bundle does not have stay. An import that was killed is
    finished by the same command.

    Usage: segno sessions import [OPTIONS] <PATH>

    Arguments:
      <PATH>
              The file or the folder, or `-` for a file from stdin

    Options:
          --into <FOLDER>
              The folder that the session goes on in [default: the one that it had]

          --trust
              Bring files back as they were, also those that could start programs

              Without it, hooks and settings that could start programs (`.git/hooks`, `.git/config`,
              `.claude/settings.json`, `.envrc`, …) get `.segno-inert` behind their names.

          --name <NAME>
              What to call the session [default: its name, numbered if another has it]

          --max-bytes <N>
              How many bytes the files of a folder may have [default: 10 GiB]

          --max-entries <N>
              How many files, folders and links may be in it [default: 150000]

          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno sessions fork --help

    Make a new session out of what another has done.

    Finished steps are copied with their answers and not run again. What an agent is in the middle of
    goes on in a conversation of the copy's own. With `--from CHECKPOINT` the copy is as the session was
    then, with the files of that moment in a new folder; with `--before STEP`, only what had finished
    before STEP was first begun is copied. The copy stands as paused, the other session stays as it is.
    Edit the spec in between, and the copy goes another way.

    Usage: segno sessions fork [OPTIONS] <SESSION>

    Arguments:
      <SESSION>
              The session: its id, its name, or the beginning of either

    Options:
          --from <CHECKPOINT>
              The checkpoint to go on from, with its files: its id, or the end of it

          --before <STEP>
              The first step to run again, as `sessions show` names it [default: the first unfinished]

          --into <FOLDER>
              The folder for the files of the checkpoint; without `--from`, one is taken now [default: a
              new one beside the session's]

          --name <NAME>
              What to call the copy [default: the session's name with `-fork`, numbered]

          --out <FOLDER>
              Where its artifacts go [default: where those of the session go]

          --run
              Go on with the copy at once

          --json
              Print JSON, one object per line

      -h, --help
              Print help (see a summary with '-h')


    $ segno checkpoint --help

    Keep the files of a session's workspace, compare them, and bring them back

    Usage: segno checkpoint <COMMAND>

    Commands:
      create   Keep where a session stands: its files, and its place in its journal
      list     List checkpoints, newest first
      show     Show a checkpoint in full
      diff     Show what changed from one checkpoint to another: files, memos, finished steps, what was
               used
      verify   Read everything that a checkpoint needs, and name what is damaged
      restore  Bring the files of a checkpoint back
      prune    Let go of old checkpoints: of each session all but the newest, and those that are too old
      export   Write a checkpoint to a folder, which `checkpoint import` reads
      import   Make a checkpoint out of a folder that `checkpoint export` wrote
      push     Send checkpoints to the storage that `storage.url` in config.toml names
      pull     Fetch checkpoints from the storage, and with them sessions that are not here
      help     Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help


    $ segno checkpoint create --help

    Keep where a session stands: its files, and its place in its journal.

    Uncommitted, untracked and ignored files are kept too, and `.git` with them. What can be made again
    (`node_modules` beside a `package.json`, `target` beside a `Cargo.toml`, …) is left out, unless git
    tracks it. The session is not disturbed, also if it is being run.

    Usage: segno checkpoint create [OPTIONS] [SESSION]

    Arguments:
      [SESSION]
              The session [default: the newest of this folder]

    Options:
      -m, --note <TEXT>
              A word about it

          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno checkpoint list --help

    List checkpoints, newest first

    Usage: segno checkpoint list [OPTIONS] [SESSION]

    Arguments:
      [SESSION]  The session [default: the newest of this folder]

    Options:
      -a, --all     Those of all sessions
          --pruned  Those that were let go of, and can be had back with `segno checkpoint prune --undo`
      -r, --remote  Those in the storage: of all sessions, or of the given one
          --json    Print them as JSON, one per line
      -h, --help    Print help


    $ segno checkpoint show --help

    Show a checkpoint in full

    Usage: segno checkpoint show [OPTIONS] <CHECKPOINT>

    Arguments:
      <CHECKPOINT>  The checkpoint: its id, or the beginning or the end of it

    Options:
          --json  Print it as JSON
      -h, --help  Print help


    $ segno checkpoint diff --help

    Show what changed from one checkpoint to another: files, memos, finished steps, what was used

    Usage: segno checkpoint diff [OPTIONS] <FROM> <TO>

    Arguments:
      <FROM>  The one to begin with: its id, or the beginning or the end of it
      <TO>    The other

    Options:
      -p, --patch  Show what changed inside text files
          --json   Print it as JSON, one object per line
      -h, --help   Print help


    $ segno checkpoint verify --help

    Read everything that a checkpoint needs, and name what is damaged

    Usage: segno checkpoint verify [OPTIONS] [CHECKPOINTS]...

    Arguments:
      [CHECKPOINTS]...  The checkpoints [default: all]

    Options:
          --json  Print what is found as JSON, one per line
      -h, --help  Print help


    $ segno checkpoint restore --help

    Bring the files of a checkpoint back.

    Every file is verified as it is written. Files that the checkpoint does not have stay, unless
    `--exact` is given. What was in the folder before is kept in a checkpoint of its own first.

    Usage: segno checkpoint restore [OPTIONS] <CHECKPOINT>

    Arguments:
      <CHECKPOINT>
              The checkpoint: its id, or the beginning or the end of it

    Options:
          --into <FOLDER>
              Where to [default: where the files came from]

          --exact
              Remove files that the checkpoint would have if they had been there

          --trust
              Bring everything back as it was, also from a checkpoint that was taken elsewhere

              Without it, hooks and settings from elsewhere that could start programs (`.git/hooks`,
              `.git/config`, `.claude/settings.json`, `.envrc`, …) get `.segno-inert` behind their
              names.

          --dry-run
              Only tell what would be done

          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno checkpoint prune --help

    Let go of old checkpoints: of each session all but the newest, and those that are too old.

    The newest checkpoint of a session always stays, and so do those of how it ended (`complete`) and
    how it went wrong (`error`). What was let go of can be had back with `--undo` for 7 days
    (`trash.keep_days` in config.toml); then `segno gc` frees the room.

    Usage: segno checkpoint prune [OPTIONS]

    Options:
          --keep <N>
              How many of each session stay [default: 10, or `checkpoints.keep` in config.toml]

          --max-age-days <DAYS>
              For how many days [default: 7, or `checkpoints.max_age_days` in config.toml]

          --undo [<ID>]
              Have those back that were let go of: all, or the one with this id

          --dry-run
              Only tell which would go

          --json
              Print them as JSON, one per line

      -h, --help
              Print help (see a summary with '-h')


    $ segno checkpoint export --help

    Write a checkpoint to a folder, which `checkpoint import` reads.

    The folder has the files as `workspace.tar.zst`, which `tar` unpacks, the session up to the
    checkpoint, its conversation and state as JSON, and a manifest with the digest of each. It is for
    your eyes only (mode 0700): it says everything that was asked and answered.

    Usage: segno checkpoint export [OPTIONS] <CHECKPOINT>

    Arguments:
      <CHECKPOINT>
              The checkpoint: its id, or the beginning or the end of it

    Options:
          --to <FOLDER>
              Where to; there must be nothing yet [default: NAME-ID in this folder]

          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno checkpoint import --help

    Make a checkpoint out of a folder that `checkpoint export` wrote.

    Everything is verified before anything is kept, and nothing is written into any workspace:
    `checkpoint restore` does that. The session comes along if it is not here. A folder of the same
    layout that another program wrote, or a `workspace.tar.zst` by itself, can be imported too; then
    only the files come.

    Usage: segno checkpoint import [OPTIONS] <FOLDER>

    Arguments:
      <FOLDER>
              The folder, or an archive of files (`.tar.zst`)

    Options:
          --max-bytes <N>
              How many bytes the archive may have unpacked [default: 10 GiB]

          --max-entries <N>
              How many files, folders and links may be in it [default: 150000]

          --dry-run
              Only verify it, and tell what would come

          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno import --help

    Adopt conversations that Claude Code or Codex left behind, as sessions.

    A transcript becomes a session that can be shown, searched, forked, exported and resumed; the file
    is kept as it is, in case its program deletes it. One that was adopted before is brought up to date.
    What a session exported is read by `segno sessions import`.

    Usage: segno import [OPTIONS] <PROGRAM> [PATH | ID]

    Arguments:
      <PROGRAM>
              Whose conversations

              Possible values:
              - claude: Claude Code's
              - codex:  Codex's

      [PATH | ID]
              A transcript, a folder with some, or the id of a conversation

    Options:
          --all
              All that the program has

          --folder <FOLDER>
              The folder to go on in [default: the one that the conversation is about]

          --dry-run
              Only tell what would be done

          --json
              Print the answers as JSON, one per line

      -h, --help
              Print help (see a summary with '-h')


    $ segno gc --help

    Free the room of files that no checkpoint names any more, here and in the storage.

    Checkpoints that were let go of longer than 7 days ago (`trash.keep_days` in config.toml) are erased
    for good. What became needless lately waits for a while: someone may be about to name it.

    Usage: segno gc [OPTIONS]

    Options:
          --grace-hours <HOURS>
              How long needless files wait

              [default: 24]

          --dry-run
              Only tell which checkpoints would be erased for good

          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno status --help

    Show what is running and what waits to be resumed, or how far a plan is

    Usage: segno status [OPTIONS] [SESSION]

    Arguments:
      [SESSION]  Only this session, finished or not, with its plan if it has one: its id, its name, or
                 the beginning of either

    Options:
          --json  Print sessions as JSON, one per line
      -h, --help  Print help


    $ segno logs --help

    Show what happened in a session, entry by entry

    Usage: segno logs [OPTIONS] [SESSION]

    Arguments:
      [SESSION]  The session: its id, its name, or the beginning of either [default: the newest of this
                 folder]

    Options:
      -f, --follow  Go on showing what happens, until the session stops
          --full    Show what was asked and answered, too
          --json    Print entries as JSON, one per line
      -h, --help    Print help


    $ segno answer --help

    Answer what a session asks, or see what it asks.

    The answer is kept with the session. A run that waits takes it at once; otherwise it counts when the
    session is resumed.

    Usage: segno answer [OPTIONS] <SESSION> [TEXT]

    Arguments:
      <SESSION>
              The session: its id, its name, or the beginning of either

      [TEXT]
              The answer, or `-` to read it from stdin [default: show what is asked]

    Options:
          --step <STEP>
              The step that asks, where several do

          --resume
              Go on with the session at once

          --json
              Print JSON, one object per line

      -h, --help
              Print help (see a summary with '-h')


    $ segno cancel --help

    Give a session up. It cannot be resumed afterwards.

    If it is running, its run stops after the step in flight, in a plan after the task; `--now` ends the
    agent at once.

    Usage: segno cancel [OPTIONS] <SESSION>

    Arguments:
      <SESSION>
              The session: its id, its name, or the beginning of either

    Options:
          --now
              Do not wait for the step in flight

          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno watch --help

    Keep the sessions of Claude Code and Codex while they go on.

    Their transcripts are mirrored into sessions of Segno within seconds, so that they are still there
    when the programs delete them. It goes on until Ctrl-C; nothing is lost if it is killed. Hooks
    (`segno hooks install`) make it quicker, and find programs that keep things elsewhere. When it
    begins, sessions of Segno whose run was lost are kept and marked, as `segno recover` does.

    Usage: segno watch [OPTIONS] [AGENTS]...

    Arguments:
      [AGENTS]...
              Whose sessions; all if none is named

              Possible values:
              - claude: Claude Code
              - codex:  Codex

    Options:
          --once
              Mirror what is there, and end

          --json
              Print each as a line of JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno hooks --help

    Have Claude Code and Codex tell of sessions that Segno did not start.

    A hook is an entry in the program's own settings: it starts `segno` when a session begins, after
    each turn, and when it ends. That leaves a note for `segno watch` and changes nothing about the
    session.

    Usage: segno hooks <COMMAND>

    Commands:
      install    Put hooks into an agent's settings, or mend those that are there
      uninstall  Take our hooks out of an agent's settings
      status     Show whether hooks are installed, and whether they would work
      help       Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')


    $ segno hooks install --help

    Put hooks into an agent's settings, or mend those that are there.

    Claude Code's are in settings.json in `$CLAUDE_CONFIG_DIR` or ~/.claude, Codex's in hooks.json in
    `$CODEX_HOME` or ~/.codex. Hooks of others stay, and so does every other byte. Codex runs a hook
    only after you have trusted it: it asks at its next start, and `/hooks` in it shows them.

    Usage: segno hooks install [OPTIONS] <AGENTS>...

    Arguments:
      <AGENTS>...
              Whose settings

              Possible values:
              - claude: Claude Code
              - codex:  Codex

    Options:
          --dry-run
              Show what would change, and change nothing

          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno hooks uninstall --help

    Take our hooks out of an agent's settings.

    If nobody else changed the file since, it becomes what it was, byte for byte; otherwise our entries
    go and everything else stays.

    Usage: segno hooks uninstall [OPTIONS] <AGENTS>...

    Arguments:
      <AGENTS>...
              Whose settings

              Possible values:
              - claude: Claude Code
              - codex:  Codex

    Options:
          --dry-run
              Show what would change, and change nothing

          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno hooks status --help

    Show whether hooks are installed, and whether they would work

    Usage: segno hooks status [OPTIONS] [AGENTS]...

    Arguments:
      [AGENTS]...
              Whose settings; all if none is named

              Possible values:
              - claude: Claude Code
              - codex:  Codex

    Options:
          --json
              Print the answer as JSON

      -h, --help
              Print help (see a summary with '-h')


    $ segno mcp --help

    Serve an agent over the Model Context Protocol, on stdin and stdout.

    The agent can record decisions, errors, feedback and things to do, read and search the history of
    its session, ask for a checkpoint, and pause. Agents that Segno starts have it already; others are
    told of it with `segno mcp config`. It is about one session, which the agent cannot choose.

    Usage: segno mcp [OPTIONS]
           segno mcp <COMMAND>

    Commands:
      config  Print how an agent is told of the server
      help    Print this message or the help of the given subcommand(s)

    Options:
      -s, --session <SESSION>
              The session: its id, its name, or the beginning of either [default: the newest one of this
              folder]

          --step <PATH>
              The step that the agent is at work on

          --agent <NAME>
              What the agent is called

              [default: agent]

      -h, --help
              Print help (see a summary with '-h')


    $ segno mcp config --help

    Print how an agent is told of the server.

    The settings go to stdout, and the command that adds them, where there is one, to stderr. Nothing is
    changed.

    Usage: segno mcp config [OPTIONS] <AGENT>

    Arguments:
      <AGENT>
              For which agent

              Possible values:
              - claude: Claude Code
              - codex:  Codex
              - acp:    Agents that speak the Agent Client Protocol
              - json:   Any other program

    Options:
      -s, --session <SESSION>
              The session: its id, its name, or the beginning of either [default: the newest one of this
              folder]

      -h, --help
              Print help (see a summary with '-h')


    $ segno doctor --help

    Verify everything that is kept, and name what is damaged.

    Reads every journal entry and every blob and compares them with their hashes. Changes nothing.

    Usage: segno doctor [OPTIONS]

    Options:
          --storage
              Also see whether the storage answers

          --json
              Print findings as JSON, one per line, and a summary

      -h, --help
              Print help (see a summary with '-h')


    $ segno demo --help

    Watch a run being killed and coming back. Needs no network and no key.

    Runs a chain of five steps with scripted answers in a folder of its own, kills it with SIGKILL in
    the middle, resumes it, and counts the calls that were made: the count is kept by the scripted
    agent, outside of Segno's journal.

    Usage: segno demo [OPTIONS]

    Options:
          --keep <FOLDER>
              Keep the demo's files here, to look at them [default: a temporary folder, removed at the
              end]

      -h, --help
              Print help (see a summary with '-h')


    $ segno completion --help

    Print a completion script for a shell.

    For example: `segno completion bash > ~/.local/share/bash-completion/completions/segno`

    Usage: segno completion <SHELL>

    Arguments:
      <SHELL>
              The shell

              [possible values: bash, elvish, fish, powershell, zsh]

    Options:
      -h, --help
              Print help (see a summary with '-h')
    ");
}

#[test]
fn the_version_is_one_line() {
    let sandbox = sandbox();
    let said = sandbox.segno(&["--version"]).good();
    assert_eq!(
        tidy(&sandbox, &said.stdout),
        format!("segno {}", env!("CARGO_PKG_VERSION"))
    );
}
