//! What plots share: an SVG with a title above the drawing, and a file to put it in.

use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;
use tokstep::{Error, Result};

/// Where a plot is drawn.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What came of it; the errors are the library's.
pub type Drawn<'a> = Result<(), Box<dyn std::error::Error + 'a>>;

/// The plot as SVG, or what the library says is wrong. Of the title the first line is the largest.
pub fn svg(
    title: &[String],
    draw: impl for<'a> FnOnce(&Area<'a>) -> Drawn<'a>,
) -> Result<String, String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (1000, 560)).into_drawing_area();
        let all = |root: &Area<'_>| -> Result<(), String> {
            root.fill(&WHITE).map_err(|e| e.to_string())?;
            let mut below = 10;
            for (i, line) in title.iter().enumerate() {
                let size = if i == 0 { 20 } else { 14 };
                let text = Text::new(line.clone(), (20, below), ("sans-serif", size));
                root.draw(&text).map_err(|e| e.to_string())?;
                below += size + 8;
            }
            let (_, area) = root.split_vertically(below);
            draw(&area).map_err(|e| e.to_string())
        };
        all(&root)?;
        root.present().map_err(|e| e.to_string())?;
    }
    Ok(svg)
}

/// Puts a plot into a file.
pub fn write(path: &Path, svg: Result<String, String>) -> Result<()> {
    let svg = svg.map_err(|e| io(path)(std::io::Error::other(e)))?;
    std::fs::write(path, svg).map_err(io(path))
}

/// Creates the file, or finds that it can be written, before anything is measured.
pub fn check(path: &Path) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let opened = options.append(true).create(true).open(path);
    opened.map(drop).map_err(io(path))
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let dir = std::env::temp_dir();
        let error = check(&dir).unwrap_err().to_string();
        assert!(error.starts_with(&dir.display().to_string()), "{error}");
    }
}
