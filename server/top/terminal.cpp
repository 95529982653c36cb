#include "server/top/terminal.h"

#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstring>

namespace camshaft::server {

namespace {

termios as_before{};

void write_all(const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t written = write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    if (written > 0) at += static_cast<size_t>(written);
  }
}

sigset_t taken_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

Terminal::Terminal() {
  const sigset_t signals = taken_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  tcgetattr(STDIN_FILENO, &as_before);
  take();
  measure();
}

Terminal::~Terminal() {
  give_back();
  if (signals_ >= 0) close(signals_);
}

void Terminal::take() {
  termios raw = as_before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  write_all("\x1b[?1049h\x1b[?25l\x1b[2J");
}

void Terminal::give_back() {
  write_all("\x1b[?25h\x1b[?1049l");
  tcsetattr(STDIN_FILENO, TCSANOW, &as_before);
}

void Terminal::measure() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return;
  columns_ = size.ws_col;
  rows_ = size.ws_row;
}

// Over what is there, line by line: a screen that is cleared first flickers.
void Terminal::show(const std::string& text) {
  std::string all = "\x1b[H";
  for (const char c : text) {
    if (c == '\n') all += "\x1b[K\r";
    all += c;
  }
  if (all.ends_with('\n')) all.pop_back();  // the last line would scroll the first one away
  write_all(all + "\x1b[J");
}

std::string Terminal::read_key() {
  char keys[16];
  const ssize_t count = read(STDIN_FILENO, keys, sizeof keys);
  if (count <= 0) return "end";
  const std::string text(keys, static_cast<size_t>(count));
  if (text == "\x1b[A" || text == "\x1bOA") return "up";
  if (text == "\x1b[B" || text == "\x1bOB") return "down";
  return text.substr(0, 1);
}

std::string Terminal::wait_for_key(std::chrono::milliseconds time) {
  pollfd ends[] = {{STDIN_FILENO, POLLIN, 0}, {signals_, POLLIN, 0}};
  const int ready = poll(ends, 2, static_cast<int>(time.count()));
  if (ready <= 0) return "";
  if (ends[1].revents == 0) return read_key();
  signalfd_siginfo signal{};
  if (read(signals_, &signal, sizeof signal) != sizeof signal) return "";
  if (signal.ssi_signo == SIGWINCH) {
    measure();
    return "resized";
  }
  if (signal.ssi_signo == SIGTSTP) {
    give_back();
    raise(SIGSTOP);
    take();
    return "resized";
  }
  return signal.ssi_signo == SIGCONT ? "resized" : "end";
}

bool is_terminal() {
  return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
}

bool has_unicode() {
  setlocale(LC_CTYPE, "");
  return std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

}  // namespace camshaft::server
