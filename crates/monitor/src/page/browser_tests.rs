//! The page in a real Chromium (Debian's `chromium` and `chromium-driver`), in a network namespace where nothing but the page is.
//!
//! `KUMADE_SCREENSHOTS=DIRECTORY` has the pictures of `docs/monitor.md` taken, too.

mod driver;
mod example;
mod real_mesh;

use super::{History, PageGuards, PageServer, PairNumbers, Tls};
use crate::access::{AccessConfig, AccessControl};
use crate::status::MonitorStatus;
use driver::Browser;
use example::{HOSTS_OF_A_LARGE_MESH, PAIR_OF_A_YEAR};
use kumade_archive::{AnyStore, Archive, DEFAULT_RESERVE_BYTES, Reader, Retention, SqliteStore};
use kumade_daemon::PrivateDirectory;
use kumade_net::clock;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{eventually, in_namespaces};
use kumade_units::Span;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::watch;

/// A browser that looks at a page.
struct Window {
    browser: Browser,
    page: SocketAddr,
}

/// The page of a status and an archive that are made up, and a browser that looks at it.
struct Visit {
    window: Window,
    status: watch::Sender<Arc<MonitorStatus>>,
    _server: PageServer,
    _directory: PrivateDirectory,
}

const DAY: Span = Span::from_secs(86_400);

impl Visit {
    /// With a history of so many days. None where there is no browser, which is said.
    fn begin(status: MonitorStatus, days: i64) -> Option<Self> {
        let inside = Namespace::new().unwrap();
        let browser = Browser::start(&inside)?;
        let directory = PrivateDirectory::new("kumade-page").unwrap();
        let file = directory.path().join("archive.db");
        let numbers = PairNumbers::default();
        let begin = clock::realtime() - DAY * days;
        let store = AnyStore::from(SqliteStore::open(&file, DEFAULT_RESERVE_BYTES).unwrap());
        let mut archive = Archive::open(store, Retention::default(), begin).unwrap();
        let pair = example::fill_days(&mut archive, begin, days);
        // All pairs have the history of this one.
        let all = status.pairs.iter().map(|status| (status.id.clone(), pair));
        numbers.write().unwrap().extend(all);
        let reader = Reader::new(AnyStore::from(SqliteStore::open_read_only(&file).unwrap()));
        let (sender, receiver) = watch::channel(Arc::new(status));
        let guards = PageGuards { access: AccessControl::new(AccessConfig::default(), |_| ()), tls: Tls::default() };
        let history = History::new(vec![reader], numbers);
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = inside
            .run(|| PageServer::start(address, receiver, history, guards, Arc::new(drop), |_| ()))
            .unwrap()
            .unwrap();
        let window = Window { browser, page: server.address() };
        Some(Visit { window, status: sender, _server: server, _directory: directory })
    }
}

impl Deref for Visit {
    type Target = Window;

    fn deref(&self) -> &Window {
        &self.window
    }
}

impl Window {
    fn open(&self, path: &str) {
        self.browser.open(&format!("http://{}{path}", self.page));
    }

    fn ask(&self, expression: &str) -> Value {
        self.browser.run(&format!("return {expression};"), &[])
    }

    #[track_caller]
    fn wait_for(&self, expression: &str) {
        assert!(
            eventually(|| self.ask(expression) == json!(true)),
            "{expression}: {}",
            self.ask("document.body.innerText")
        );
    }

    /// Nothing was written to the console, such as what the page's policy forbids; and nothing was asked of other hosts.
    fn assert_quiet(&self) {
        // The browser's own page, with which it begins, may have something to say.
        let is_own = |entry: &Value| entry["message"].as_str().is_some_and(|text| text.starts_with("chrome://"));
        let console: Vec<_> = self.browser.console().into_iter().filter(|entry| !is_own(entry)).collect();
        assert_eq!(console, Vec::<Value>::new());
        let own = format!("http://{}/", self.page);
        let foreign: Vec<_> = self.browser.requests().into_iter().filter(|url| !url.starts_with(&own)).collect();
        assert_eq!(foreign, Vec::<String>::new());
    }

    /// When there was anything to see, and when there was what had to be noted.
    fn times(&self) -> String {
        let first = self.ask("Math.round(performance.getEntriesByName('first-contentful-paint')[0]?.startTime)");
        self.wait_for("typeof window.notedTime === 'number'");
        format!("first paint after {first} ms, all of it after {} ms", self.ask("Math.round(window.notedTime)"))
    }

    /// With `KUMADE_SCREENSHOTS` only.
    fn picture(&self, name: &str) {
        let Some(directory) = std::env::var_os("KUMADE_SCREENSHOTS") else { return };
        std::fs::write(std::path::Path::new(&directory).join(name), self.browser.screenshot()).unwrap();
    }
}

const FOCUSED: &str = "document.activeElement.getAttribute('aria-label')";

#[test]
fn the_matrix_of_a_hundred_hosts_is_walked_by_keyboard_alone() {
    in_namespaces("page::browser_tests::the_matrix_of_a_hundred_hosts_is_walked_by_keyboard_alone", || {
        let Some(visit) = Visit::begin(example::mesh(HOSTS_OF_A_LARGE_MESH), 2) else { return };
        let browser = &visit.browser;
        browser.note_time_of("document.querySelectorAll('.matrix td').length === 10000");
        visit.open("/");
        visit.wait_for("document.querySelectorAll('.matrix td').length === 10000");
        println!("matrix of 100 × 100: {}", visit.times());
        // An alert stands above all views.
        visit.wait_for("document.getElementById('alerts').innerText.includes('site-004')");
        // From the top of the page by the tab key, within the matrix by arrows.
        for _ in 0..20 {
            if visit.ask("!!document.activeElement.closest('td')") == json!(true) {
                break;
            }
            browser.press("Tab");
        }
        let label = |expected: &str| {
            let text = visit.ask(FOCUSED);
            assert!(text.as_str().is_some_and(|text| text.starts_with(expected)), "{text}");
        };
        label("site-001 → site-002");
        ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"].iter().for_each(|key| browser.press(key));
        label("site-003 → site-004");
        assert!(visit.ask(FOCUSED).as_str().unwrap().contains("down since"), "{}", visit.ask(FOCUSED));
        browser.press("End");
        label("site-003 → site-100");
        ["Home", "ArrowUp"].iter().for_each(|key| browser.press(key));
        label("site-002 → site-001");
        // What is in view stays there while others hear the news.
        let mut news = visit.status.borrow().as_ref().clone();
        news.time_seconds += 60.0;
        visit.status.send_replace(Arc::new(news));
        browser.press("Enter");
        visit.wait_for(
            "location.pathname.startsWith('/pair/') && document.querySelector('h1').innerText.includes('site-001')",
        );
        visit.wait_for("document.activeElement.id === 'main'");
        browser.back();
        visit.wait_for("!!document.activeElement.closest('.matrix td')");
        label("site-002 → site-001");
        visit.assert_quiet();
        visit.picture("monitor-matrix-large.png");
    });
}

#[test]
fn a_pair_shows_a_year() {
    in_namespaces("page::browser_tests::a_pair_shows_a_year", || {
        let Some(visit) = Visit::begin(example::mesh(8), 365) else { return };
        visit.browser.note_time_of("document.querySelectorAll('.plot canvas').length >= 3");
        visit.open(&format!("/pair/{PAIR_OF_A_YEAR}?last=1y"));
        visit.wait_for("document.querySelectorAll('.plot canvas').length >= 3");
        visit.wait_for("document.body.innerText.includes('the agent did not run')");
        println!("a pair's year: {}", visit.times());
        visit.picture("monitor-pair.png");
        visit.assert_quiet();
    });
}

#[test]
fn eight_tabs_share_one_stream() {
    in_namespaces("page::browser_tests::eight_tabs_share_one_stream", || {
        let Some(visit) = Visit::begin(example::mesh(8), 2) else { return };
        let mut streams = 0;
        let mut count_streams = || {
            streams += visit.browser.requests().iter().filter(|url| url.contains("/api/v1/stream?")).count();
            streams
        };
        visit.open("/");
        visit.wait_for("document.getElementById('connection').innerText.startsWith('live')");
        for _ in 1..8 {
            visit.browser.open_tab();
            visit.open("/");
            visit.wait_for("document.getElementById('connection').innerText.startsWith('live')");
        }
        assert_eq!(count_streams(), 1, "the first tab has it");
        let mut news = visit.status.borrow().as_ref().clone();
        news.agents[0].name = "Renamed".to_owned();
        visit.status.send_replace(Arc::new(news));
        for tab in visit.browser.tabs() {
            visit.browser.switch_to(&tab);
            visit.wait_for("document.querySelector('.matrix tbody th').innerText === 'Renamed'");
        }
        // Once the tab with the stream is closed, another one has it.
        visit.browser.switch_to(&visit.browser.tabs()[0]);
        visit.browser.close_tab();
        visit.browser.switch_to(&visit.browser.tabs()[0]);
        assert!(eventually(|| count_streams() == 2));
        visit.assert_quiet();
    });
}

#[test]
fn each_view_fits_its_window_light_and_dark() {
    in_namespaces("page::browser_tests::each_view_fits_its_window_light_and_dark", || {
        for (size, name) in [(8, "small"), (HOSTS_OF_A_LARGE_MESH, "large")] {
            let Some(visit) = Visit::begin(example::mesh(size), 2) else { return };
            visit_all_views(&visit, name);
            visit.assert_quiet();
        }
    });
}

/// How high a row of the heat map is of which nothing is known yet.
const EMPTY_ROW_HEIGHT: &str = "(() => { const canvas = document.createElement('canvas'); \
    document.querySelector('table.heat td').append(canvas); const height = canvas.clientHeight; canvas.remove(); return height; })()";

/// Those that reach beyond the window, as a test that fails says.
const WIDE_ELEMENTS: &str = "[...document.querySelectorAll('body *')].filter((one) => !one.parentElement.closest('.scroll') && \
    one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((one) => `${one.tagName}.${one.className}#${one.id}`)";

/// A view has a ground of this colour, and is no wider than the window.
fn assert_fits(window: &Window, view: &str, ground: &str, widths: &[u32]) {
    window.open(view);
    window.wait_for("document.getElementById('connection').innerText.startsWith('live')");
    window.wait_for("!!document.querySelector('h1') && !document.body.innerText.includes('could not be fetched')");
    assert_eq!(window.ask("getComputedStyle(document.body).backgroundColor"), json!(ground));
    for width in widths {
        window.browser.resize(*width, 900);
        let widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]";
        let fits = || window.ask(widths)[0].as_u64() <= window.ask(widths)[1].as_u64();
        assert!(eventually(fits), "{view} at {width}: {}", window.ask(WIDE_ELEMENTS));
    }
}

fn visit_all_views(visit: &Window, name: &str) {
    let pair = format!("/pair/{PAIR_OF_A_YEAR}?last=1y");
    let views = ["/", "/?show=loss", "/paths", "/?show=delay", "/heatmap?last=30d", "/events", "/schedule", &pair];
    let views = if name == "small" { &views[..] } else { &views[..3] };
    for (scheme, ground) in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(23, 23, 21)")] {
        visit.browser.prefer(scheme);
        for view in views.iter().copied() {
            assert_fits(visit, view, ground, &[360, 1280, 2560]);
        }
        visit.browser.resize(1280, 800);
        visit.open("/heatmap?last=30d");
        visit.wait_for("!!document.querySelector('table.heat canvas')");
        assert_eq!(visit.ask(EMPTY_ROW_HEIGHT), json!(18));
        visit.open("/");
        visit.wait_for("!!document.querySelector('.matrix')");
        if name == "small" {
            visit.picture(&format!("monitor-matrix-{scheme}.png"));
        }
    }
}
