//! `tokstep bench --sustain --plot FILE.svg`: speed second by second and window by window, and the
//! temperature on an axis of its own.

use super::canvas::{self, Area, Drawn};
use super::window::Window;
use plotters::prelude::*;
use std::path::Path;
use tokstep::Result;

const SPEED: RGBColor = RGBColor(0, 114, 178);
const WINDOW: RGBColor = RGBColor(0, 60, 100);
const HEAT: RGBColor = RGBColor(213, 94, 0);
/// More points than this in a line only blacken it.
const POINTS: usize = 1200;

/// What is drawn.
pub struct Drawing<'a> {
    pub title: &'a [String],
    /// Tokens of each second.
    pub per_second: &'a [f32],
    /// Second and degrees Celsius.
    pub temps: &'a [(f32, f32)],
    pub windows: &'a [Window],
}

impl Drawing<'_> {
    /// Draws into a file.
    pub fn write(&self, path: &Path) -> Result<()> {
        canvas::write(path, self.svg())
    }

    fn svg(&self) -> Result<String, String> {
        canvas::svg(self.title, |area| self.draw(area))
    }

    fn draw<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        // Minutes are easier to read than hundreds of seconds.
        let end = self.windows.last().map_or(1.0, |w| w.to).max(1.0);
        let (unit, name) = match end {
            s if s < 180.0 => (1.0, "seconds"),
            s if s < 7200.0 => (60.0, "minutes"),
            _ => (3600.0, "hours"),
        };
        let speeds = thin(
            self.per_second
                .iter()
                .enumerate()
                .map(|(second, tokens)| ((second as f64 + 0.5) / unit, f64::from(*tokens))),
        );
        let rates = self.windows.iter().map(Window::rate);
        let most = speeds.iter().map(|p| p.1).chain(rates).fold(0.0, f64::max);
        let most = if most > 0.0 { most * 1.15 } else { 1.0 };
        let hot = !self.temps.is_empty();
        let mut chart = ChartBuilder::on(area)
            .margin(16)
            .x_label_area_size(48)
            .y_label_area_size(72)
            .right_y_label_area_size(if hot { 64 } else { 0 })
            .build_cartesian_2d(0.0..end / unit, 0.0..most)?
            .set_secondary_coord(0.0..end / unit, heat_range(self.temps));
        chart
            .configure_mesh()
            .x_desc(name)
            .y_desc("tokens per second")
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 15))
            .light_line_style(TRANSPARENT)
            .draw()?;
        let key = |colour: RGBColor, width: u32| {
            move |(x, y)| PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(width))
        };
        chart
            .draw_series(LineSeries::new(speeds, SPEED.mix(0.7).stroke_width(1)))?
            .label("each second")
            .legend(key(SPEED, 1));
        let means = self.windows.iter().map(|w| {
            let ends = [(w.from / unit, w.rate()), (w.to / unit, w.rate())];
            PathElement::new(ends, WINDOW.stroke_width(3))
        });
        chart
            .draw_series(means)?
            .label("mean of a window")
            .legend(key(WINDOW, 3));
        if hot {
            chart
                .configure_secondary_axes()
                .y_desc("hottest chip, °C")
                .label_style(("sans-serif", 13).into_font().color(&HEAT))
                .axis_desc_style(("sans-serif", 15).into_font().color(&HEAT))
                .draw()?;
            let temps = thin(
                self.temps
                    .iter()
                    .map(|(s, t)| (f64::from(*s) / unit, f64::from(*t))),
            );
            chart
                .draw_secondary_series(LineSeries::new(temps, HEAT.stroke_width(2)))?
                .label("temperature")
                .legend(key(HEAT, 2));
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
}

/// Degrees the axis shows: whole tens around what was read.
fn heat_range(temps: &[(f32, f32)]) -> std::ops::Range<f64> {
    let all = || temps.iter().map(|t| f64::from(t.1));
    let low = all().fold(f64::INFINITY, f64::min);
    let high = all().fold(f64::NEG_INFINITY, f64::max);
    match low <= high {
        true => (low / 10.0 - 0.5).floor() * 10.0..(high / 10.0 + 0.5).ceil() * 10.0,
        false => 0.0..1.0,
    }
}

/// At most [`POINTS`] points: neighbours become their mean.
fn thin(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let all: Vec<_> = points.collect();
    let per = all.len().div_ceil(POINTS).max(1);
    let mean = |c: &[(f64, f64)]| {
        let n = c.len() as f64;
        let sum = c.iter().fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
        (sum.0 / n, sum.1 / n)
    };
    all.chunks(per).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_and_temperature_have_an_axis_each() {
        let window = |from: f64| Window {
            from,
            to: from + 10.0,
            tokens: 400,
            ..Window::default()
        };
        let windows = [window(0.0), window(10.0)];
        let title = ["a <model>".to_owned(), "a device".to_owned()];
        let mut drawing = Drawing {
            title: &title,
            per_second: &[40.0; 20],
            temps: &[],
            windows: &windows,
        };
        let svg = drawing.svg().unwrap();
        for text in [
            "a &lt;model&gt;",
            "tokens per second",
            "seconds",
            "mean of a window",
        ] {
            assert!(svg.contains(text), "no {text:?} in {svg}");
        }
        assert!(!svg.contains("°C"));
        drawing.temps = &[(0.0, 44.0), (10.0, 71.0)];
        let svg = drawing.svg().unwrap();
        assert!(svg.contains("hottest chip, °C") && svg.contains("temperature"));
        assert_eq!(heat_range(drawing.temps), 30.0..80.0);
        // Nothing measured is a plot too.
        (drawing.windows, drawing.per_second) = (&[], &[]);
        assert!(drawing.svg().is_ok());
    }

    #[test]
    fn long_runs_are_thinned() {
        let points = thin((0..86_400).map(|i| (f64::from(i), 7.0)));
        assert!(points.len() <= POINTS && points.iter().all(|p| p.1 == 7.0));
    }
}
