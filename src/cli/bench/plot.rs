//! `tokstep bench --plot FILE.svg`: the time of every decode step against its number.

use super::canvas::{self, Area, Drawn};
use plotters::prelude::*;
use std::path::Path;
use tokstep::Result;

/// The steps of one test, by repetition.
pub struct Series {
    /// The test's name.
    pub name: String,
    /// Milliseconds of every step of every repetition.
    pub step_ms: Vec<Vec<f64>>,
}

/// Eight colours that people who do not see all colours can tell apart (Okabe and Ito), black last.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 60),
    RGBColor(0, 0, 0),
];

/// Draws the series into a file.
pub fn write(path: &Path, title: &[String], per_submit: u32, series: &[Series]) -> Result<()> {
    canvas::write(path, draw(title, per_submit, series))
}

fn draw(title: &[String], per_submit: u32, series: &[Series]) -> Result<String, String> {
    canvas::svg(title, |area| plot(area, per_submit, series))
}

fn plot<'a>(area: &Area<'a>, per_submit: u32, series: &[Series]) -> Drawn<'a> {
    let all = || series.iter().flat_map(|s| &s.step_ms);
    let steps = all().map(Vec::len).max().unwrap_or(1).max(2);
    let most = all().flatten().copied().fold(0.0, f64::max);
    let most = if most > 0.0 { most * 1.08 } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(1.0..steps as f64, 0.0..most)?;
    let per = match per_submit {
        1 => "ms per decode step".to_owned(),
        n => format!("ms per decode step (mean of {n} in a submit)"),
    };
    chart
        .configure_mesh()
        .x_desc("decode step")
        .y_desc(per)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 15))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (i, s) in series.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        for (repetition, ms) in s.step_ms.iter().enumerate() {
            let points = ms.iter().enumerate().map(|(i, ms)| ((i + 1) as f64, *ms));
            let line = LineSeries::new(points, colour.mix(0.7).stroke_width(2));
            let drawn = chart.draw_series(line)?;
            if repetition == 0 {
                let legend =
                    move |(x, y)| PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(3));
                drawn.label(s.name.clone()).legend(legend);
            }
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.4))
        .label_font(("sans-serif", 13))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_titles_axes_and_series() {
        let series = |name: &str, ms: f64| Series {
            name: name.into(),
            step_ms: vec![vec![ms; 16], vec![ms * 1.1; 16]],
        };
        let title = ["a <model> & more".to_owned(), "on a device".to_owned()];
        let all = [series("tg16", 2.0), series("tg16 @ d512", 3.0)];
        let svg = draw(&title, 8, &all).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in [
            "a &lt;model&gt; &amp; more",
            "on a device",
            "decode step",
            "ms per decode step (mean of 8 in a submit)",
            "tg16 @ d512",
        ] {
            assert!(svg.contains(text), "no {text:?} in {svg}");
        }
        // A line of its own for every repetition.
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 4, "{svg}");
        // One step, or none, is a plot too.
        let one = Series {
            name: "tg1".into(),
            step_ms: vec![vec![1.0]],
        };
        assert!(draw(&title, 1, &[one]).is_ok());
        assert!(draw(&title, 1, &[]).is_ok());
    }
}
