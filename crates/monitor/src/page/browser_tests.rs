//! The page in a real Chromium (Debian's `chromium` and `chromium-driver`), in a network namespace where nothing but the page is.
//!
//! `KUMADE_SCREENSHOTS=DIRECTORY` has the pictures of `docs/monitor.md` taken, too.

mod driver;
mod example;

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
use std::sync::Arc;
use tokio::sync::watch;

/// A page, and a browser that looks at it.
struct Visit {
    browser: Browser,
    status: watch::Sender<Arc<MonitorStatus>>,
    server: PageServer,
    _directory: PrivateDirectory,
}

const YEAR: Span = Span::from_secs(365 * 86_400);

impl Visit {
    /// None where there is no browser, which is said.
    fn begin(status: MonitorStatus) -> Option<Self> {
        let inside = Namespace::new().unwrap();
        let browser = Browser::start(&inside)?;
        let directory = PrivateDirectory::new("kumade-page").unwrap();
        let file = directory.path().join("archive.db");
        let numbers = PairNumbers::default();
        let begin = clock::realtime() - YEAR;
        let store = AnyStore::from(SqliteStore::open(&file, DEFAULT_RESERVE_BYTES).unwrap());
        let mut archive = Archive::open(store, Retention::default(), begin).unwrap();
        example::fill_year(&mut archive, &numbers, begin);
        let reader = Reader::new(AnyStore::from(SqliteStore::open_read_only(&file).unwrap()));
        let (sender, receiver) = watch::channel(Arc::new(status));
        let guards = PageGuards { access: AccessControl::new(AccessConfig::default(), |_| ()), tls: Tls::default() };
        let history = History::new(vec![reader], numbers);
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = inside.run(|| PageServer::start(address, receiver, history, guards, |_| ())).unwrap().unwrap();
        Some(Visit { browser, status: sender, server, _directory: directory })
    }

    fn open(&self, path: &str) {
        self.browser.open(&format!("http://{}{path}", self.server.address()));
    }

    fn ask(&self, expression: &str) -> Value {
        self.browser.run(&format!("return {expression};"), &[])
    }

    fn wait_for(&self, expression: &str) {
        assert!(eventually(|| self.ask(expression) == json!(true)), "{expression}: {}", self.ask("document.body.innerText"));
    }

    /// What the page wrote to the console, such as what its policy forbids, and what it asked of other hosts.
    fn assert_quiet(&self) {
        assert_eq!(self.browser.console(), Vec::<Value>::new());
        let own = format!("http://{}/", self.server.address());
        let foreign: Vec<_> = self.browser.requests().into_iter().filter(|url| !url.starts_with(&own)).collect();
        assert_eq!(foreign, Vec::<String>::new());
    }

    fn picture(&self, name: &str) {
        let Some(directory) = std::env::var_os("KUMADE_SCREENSHOTS") else { return };
        std::fs::write(std::path::Path::new(&directory).join(name), self.browser.screenshot()).unwrap();
    }
}

const FOCUSED: &str = "document.activeElement.getAttribute('aria-label')";

#[test]
fn the_matrix_of_a_hundred_hosts_is_walked_by_keyboard_alone() {
    in_namespaces("page::browser_tests::the_matrix_of_a_hundred_hosts_is_walked_by_keyboard_alone", || {
        let Some(visit) = Visit::begin(example::mesh(HOSTS_OF_A_LARGE_MESH)) else { return };
        let browser = &visit.browser;
        visit.open("/");
        visit.wait_for("document.querySelectorAll('.matrix td').length === 10000");
        let paint = visit.ask("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null");
        let whole = browser.run_until_painted();
        println!("matrix of 100 × 100: first paint after {paint} ms, all of it after {whole} ms");
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
        browser.press("Home");
        label("site-003 → site-001");
        // What is in view stays there while others hear the news.
        let mut news = visit.status.borrow().as_ref().clone();
        news.time_seconds += 60.0;
        visit.status.send_replace(Arc::new(news));
        browser.press("Enter");
        visit.wait_for("location.pathname.startsWith('/pair/') && document.querySelector('h1').innerText.includes('site-001')");
        visit.wait_for("document.activeElement.id === 'main'");
        browser.back();
        visit.wait_for("!!document.activeElement.closest('.matrix td')");
        label("site-003 → site-001");
        visit.assert_quiet();
        visit.picture("monitor-matrix-large.png");
    });
}

#[test]
fn a_pair_shows_a_year() {
    in_namespaces("page::browser_tests::a_pair_shows_a_year", || {
        let Some(visit) = Visit::begin(example::mesh(8)) else { return };
        visit.open(&format!("/pair/{PAIR_OF_A_YEAR}?last=1y"));
        visit.wait_for("document.querySelectorAll('.plot canvas').length >= 3");
        visit.wait_for("document.body.innerText.includes('the agent did not run')");
        println!("a pair's year: {} ms", visit.browser.run_until_painted());
        visit.picture("monitor-pair.png");
        visit.assert_quiet();
    });
}

#[test]
fn eight_tabs_share_one_stream() {
    in_namespaces("page::browser_tests::eight_tabs_share_one_stream", || {
        let Some(visit) = Visit::begin(example::mesh(8)) else { return };
        let idle = visit.status.receiver_count();
        visit.open("/");
        visit.wait_for("document.getElementById('connection').innerText.startsWith('live')");
        for _ in 1..8 {
            visit.browser.open_tab();
            visit.open("/");
            visit.wait_for("document.getElementById('connection').innerText.startsWith('live')");
        }
        assert!(eventually(|| visit.status.receiver_count() == idle + 1), "{}", visit.status.receiver_count());
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
        assert!(eventually(|| visit.status.receiver_count() == idle + 1), "{}", visit.status.receiver_count());
        visit.assert_quiet();
    });
}

#[test]
fn each_view_fits_its_window_light_and_dark() {
    in_namespaces("page::browser_tests::each_view_fits_its_window_light_and_dark", || {
        for (size, name) in [(8, "small"), (HOSTS_OF_A_LARGE_MESH, "large")] {
            let Some(visit) = Visit::begin(example::mesh(size)) else { return };
            visit_all_views(&visit, name);
            visit.assert_quiet();
        }
    });
}

fn visit_all_views(visit: &Visit, name: &str) {
    let views =
        ["/", "/?show=loss", "/?show=delay", "/paths", "/heatmap", "/events", "/schedule", &format!("/pair/{PAIR_OF_A_YEAR}")];
    for (scheme, ground) in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(23, 23, 21)")] {
        visit.browser.prefer(scheme);
        for view in views {
            visit.open(view);
            visit.wait_for("document.getElementById('connection').innerText.startsWith('live')");
            visit.wait_for("!!document.querySelector('h1') && !document.body.innerText.includes('could not be fetched')");
            assert_eq!(visit.ask("getComputedStyle(document.body).backgroundColor"), json!(ground));
            for width in [360, 1280, 2560] {
                visit.browser.resize(width, 900);
                let widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]";
                let fits = || visit.ask(widths)[0].as_u64() <= visit.ask(widths)[1].as_u64();
                assert!(eventually(fits), "{view} of the {name} mesh at {width}: {}", visit.ask(widths));
            }
        }
        visit.browser.resize(1280, 800);
        visit.open("/");
        visit.wait_for("!!document.querySelector('.matrix')");
        if name == "small" {
            visit.picture(&format!("monitor-matrix-{scheme}.png"));
        }
    }
}
