//! `completions` and `man`: shell completions and manual pages, generated from the definition of
//! the command line.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Cli;
use crate::failure::{Failure, Result};

/// Print a script that completes commands and options in a shell.
///
///     maypole completions bash > ~/.local/share/bash-completion/completions/maypole
///     maypole completions zsh  > ~/.zfunc/_maypole       (with ~/.zfunc in fpath)
///     maypole completions fish > ~/.config/fish/completions/maypole.fish
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub fn run(self, out: &mut dyn Write) -> Result {
        // The script is written to memory first, because the generator panics when it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "maypole", &mut script);
        out.write_all(&script)?;
        Ok(())
    }
}

/// Print the manual page, or write the pages of all commands into a directory.
///
///     maypole man | man -l -
///     maypole man --out ~/.local/share/man/man1
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Man {
    /// Write a page for each command into this directory, which is created if it is missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let command = Cli::command();
        let Some(dir) = self.out else {
            clap_mangen::Man::new(command).render(out)?;
            return Ok(());
        };
        fs::create_dir_all(&dir)
            .and_then(|()| clap_mangen::generate_to(command, &dir))
            .map_err(|error| Failure::of_file(&dir, "write the pages here", &error))
    }
}
