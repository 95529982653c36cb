#include <algorithm>

#include "server/options/flag.h"

namespace camshaft::server {

namespace {

constexpr int64_t most_int = std::numeric_limits<int32_t>::max();

using Apply = std::function<void(ServeOptions&, const std::string&)>;

// The most common kinds of flags: a text, a truth value, a whole number that is a field of the options.
Flag text_flag(const char* group, const char* name, const char* value, const char* help,
               std::function<std::string&(ServeOptions&)> field) {
  return {group, name, value, help,
          [field = std::move(field)](ServeOptions& options, const std::string& text) { field(options) = text; }};
}
Flag boolean_flag(const char* group, const std::string& name, const char* help,
                  std::function<bool&(ServeOptions&)> field) {
  return {group, name, "BOOL", help, [field = std::move(field), name](ServeOptions& options, const std::string& text) {
            field(options) = read_boolean(name, text);
          }};
}
Flag integer_flag(const char* group, const std::string& name, const char* help, int64_t least, int64_t most,
                  std::function<void(ServeOptions&, int64_t)> set) {
  return {group, name, "N", help,
          [set = std::move(set), name, least, most](ServeOptions& options, const std::string& text) {
            set(options, read_integer(name, text, least, most));
          }};
}

void take_control_mode(ServeOptions& options, const std::string& mode) {
  if (mode == "none")
    options.server.models.control = ModelControl::none;
  else if (mode == "poll")
    options.server.models.control = ModelControl::poll;
  else if (mode == "explicit")
    options.server.models.control = ModelControl::explicit_;
  else
    throw OptionError("--model-control-mode is none, poll or explicit, not '" + mode + "'");
}

void take_cache_config(ServeOptions& options, const std::string& text) {
  const auto [cache, setting] = read_pair("cache-config", text, ',', "local,size=BYTES");
  const auto [name, value] = read_pair("cache-config", setting, '=', "local,size=BYTES");
  if (cache != "local" || name != "size")
    throw OptionError("--cache-config has local,size=BYTES alone: there is no cache '" + cache + "' with '" + name +
                      "'");
  options.server.models.cache_bytes = static_cast<uint64_t>(read_integer("cache-config=local,size", value, 0));
}

void take_rate_limit(ServeOptions& options, const std::string& text) {
  if (text != "off" && text != "execution_count")
    throw OptionError("--rate-limit is off or execution_count, not '" + text + "'");
  options.server.models.rate_limit = text == "execution_count";
}

void take_rate_limit_resource(ServeOptions& options, const std::string& text) {
  const auto [name, rest] = read_pair("rate-limit-resource", text, ':', "NAME:COUNT[:DEVICE]");
  const size_t at = rest.find(':');
  const int64_t count = read_integer("rate-limit-resource", rest.substr(0, at), 0, most_int);
  int device = -1;
  if (at != std::string::npos && rest.substr(at + 1) != "GLOBAL" && rest.substr(at + 1) != "global")
    device = static_cast<int>(read_integer("rate-limit-resource", rest.substr(at + 1), 0, 1024));
  options.server.models.rate_limit_resources[{name, device}] = static_cast<uint64_t>(count);
}

void take_trace_config(ServeOptions& options, const std::string& text) {
  const size_t comma = text.find(',');
  const bool has_mode = comma != std::string::npos && comma < text.find('=');
  const auto [name, value] =
      read_pair("trace-config", has_mode ? text.substr(comma + 1) : text, '=', "[triton|opentelemetry,]SETTING=VALUE");
  TraceSettings& trace = options.server.trace;
  if (name == "mode") {
    trace.mode = value;
  } else if (name == "level") {
    if (trace.level == std::vector<std::string>{"OFF"}) trace.level.clear();
    trace.level.push_back(value);
  } else if (name == "rate") {
    trace.rate = static_cast<uint32_t>(read_integer("trace-config=rate", value, 1, most_int));
  } else if (name == "count") {
    trace.count = read_integer("trace-config=count", value, -1);
  } else if (name == "file") {
    trace.file = value;
  } else if (name == "log-frequency") {
    trace.log_frequency = static_cast<uint32_t>(read_integer("trace-config=log-frequency", value, 0, most_int));
  } else if (name == "url") {
    trace.url = value;
  } else if (name == "resource" && value.starts_with("service.name=")) {
    trace.service_name = value.substr(13);
  } else {
    throw OptionError("--trace-config has no setting '" + name +
                      "': there are mode, level, rate, count, file, log-frequency, url and resource=service.name=NAME");
  }
}

std::vector<Flag> repository_flags() {
  const char* group = "Models";
  const Apply add_repository = [](ServeOptions& options, const std::string& path) {
    options.server.models.repositories.emplace_back(path);
  };
  return {
      {group, "model-repository", "DIR", "A folder of models; may be given several times.", add_repository},
      {group, "model-store", "DIR", "The same.", add_repository},
      {group, "model-control-mode", "MODE",
       "none: all models are loaded at the start; poll: changes are looked for; explicit: clients load and unload.",
       take_control_mode},
      {group, "load-model", "NAME", "With explicit: a model to load at the start; '*' for all; may be repeated.",
       [](ServeOptions& options, const std::string& name) { options.server.models.startup_models.push_back(name); }},
      integer_flag(group, "repository-poll-secs", "With poll: seconds between two looks (15).", 0, most_int,
                   [](ServeOptions& o, int64_t n) { o.server.models.poll_seconds = static_cast<int>(n); }),
      text_flag(group, "model-config-name", "NAME", "Take configs/NAME.pbtxt of a model where there is one.",
                [](ServeOptions& o) -> std::string& { return o.server.models.config_name; }),
      integer_flag(group, "model-load-thread-count", "Models that are loaded at the same time (4).", 1, 256,
                   [](ServeOptions& o, int64_t n) { o.server.models.load_threads = static_cast<int>(n); }),
      {group, "disable-auto-complete-config", "", "Configurations must say everything themselves.",
       [](ServeOptions& options, const std::string&) { options.server.models.strict_config = true; }},
      boolean_flag(group, "strict-model-config", "The same, by its older name.",
                   [](ServeOptions& o) -> bool& { return o.server.models.strict_config; }),
      boolean_flag(group, "strict-readiness", "Ready only when every model is (true).",
                   [](ServeOptions& o) -> bool& { return o.server.strict_readiness; }),
      boolean_flag(group, "exit-on-error", "End when a model cannot be loaded at the start (true).",
                   [](ServeOptions& o) -> bool& { return o.exit_on_error; }),
      {group, "backend-config", "SETTING", "[BACKEND,]NAME=VALUE; default-max-batch-size is known (4).",
       [](ServeOptions& options, const std::string& text) { options.server.models.backend_config.push_back(text); }},
      {group, "engine-cache", "DIR", "Where engines built of ONNX files are kept (~/.cache/camshaft/server).",
       [](ServeOptions& options, const std::string& path) { options.server.models.engine_cache.folder = path; }},
      integer_flag(
          group, "engine-cache-size",
          "Bytes that they may take (20 GiB); what was used the longest ago goes; 0: any number.", 0,
          std::numeric_limits<int64_t>::max(),
          [](ServeOptions& o, int64_t n) { o.server.models.engine_cache.most_bytes = static_cast<uint64_t>(n); }),
      text_flag(group, "device", "NAME", "For models that do not say: cpu, cuda or cuda:1 (a GPU where there is one).",
                [](ServeOptions& o) -> std::string& { return o.server.models.device; }),
      {group, "cache-config", "SETTING", "local,size=BYTES: the response cache, for models that enable it.",
       take_cache_config},
      {group, "rate-limit", "MODE", "off, or execution_count: instances wait for the resources of their groups.",
       take_rate_limit},
      {group, "rate-limit-resource", "SETTING", "NAME:COUNT[:DEVICE]; may be repeated.", take_rate_limit_resource},
  };
}

std::vector<Flag> http_flags() {
  const char* group = "HTTP";
  return {
      boolean_flag(group, "allow-http", "Listen for HTTP (true).",
                   [](ServeOptions& o) -> bool& { return o.allow_http; }),
      {group, "http-address", "ADDRESS", "Where (127.0.0.1: this machine alone; 0.0.0.0: everyone).",
       [](ServeOptions& options, const std::string& address) {
         options.http.address = address;
         options.http_address_given = true;
       }},
      integer_flag(group, "http-port", "At which port (8000; 0: a free one).", 0, 65535,
                   [](ServeOptions& o, int64_t n) { o.http.port = static_cast<uint16_t>(n); }),
      boolean_flag(group, "reuse-http-port", "Let other servers listen there, too.",
                   [](ServeOptions& o) -> bool& { return o.http.reuse_port; }),
      integer_flag(group, "http-thread-count", "Threads that read and write (8).", 1, 256,
                   [](ServeOptions& o, int64_t n) { o.http.threads = static_cast<int>(n); }),
      integer_flag(group, "http-max-input-size", "Bytes of a request, also after decompression (64 MiB).", 1,
                   std::numeric_limits<int64_t>::max(),
                   [](ServeOptions& o, int64_t n) { o.http.max_input_size = static_cast<uint64_t>(n); }),
      text_flag(group, "http-header-forward-pattern", "REGEX", "Headers that become parameters of requests.",
                [](ServeOptions& o) -> std::string& { return o.http.forward_headers; }),
      {group, "http-restricted-api", "APIS:KEY=VALUE", "APIs that ask for a header; may be repeated.",
       [](ServeOptions& options, const std::string& text) { options.http.restricted.add(text); }},
      text_flag(group, "http-server-cert", "FILE", "A certificate in PEM form: HTTPS in place of HTTP.",
                [](ServeOptions& o) -> std::string& { return o.http.tls.certificate; }),
      text_flag(group, "http-server-key", "FILE", "Its key.",
                [](ServeOptions& o) -> std::string& { return o.http.tls.key; }),
      text_flag(group, "http-root-cert", "FILE", "Authorities of clients' certificates.",
                [](ServeOptions& o) -> std::string& { return o.http.tls.authorities; }),
      boolean_flag(group, "http-use-ssl-mutual", "Clients must have a certificate.",
                   [](ServeOptions& o) -> bool& { return o.http.tls.mutual; }),
      integer_flag(group, "http-idle-timeout", "Seconds that a connection waits for a request (120).", 1, most_int,
                   [](ServeOptions& o, int64_t n) { o.http.idle_timeout = std::chrono::seconds(n); }),
      integer_flag(group, "http-header-timeout", "Seconds from a request's first byte to its header's end (10).", 1,
                   most_int, [](ServeOptions& o, int64_t n) { o.http.header_timeout = std::chrono::seconds(n); }),
      integer_flag(group, "http-body-timeout", "Seconds for a body, and one more for every 256 KiB (60).", 1, most_int,
                   [](ServeOptions& o, int64_t n) { o.http.body_timeout = std::chrono::seconds(n); }),
      integer_flag(group, "http-max-header-size", "Bytes of a header (65536).", 1024, 16 << 20,
                   [](ServeOptions& o, int64_t n) { o.http.max_header_size = static_cast<uint32_t>(n); }),
      integer_flag(group, "http-max-connections", "Connections at the same time (10000).", 1, most_int,
                   [](ServeOptions& o, int64_t n) { o.http.max_connections = static_cast<uint32_t>(n); }),
      boolean_flag(group, "status-page", "The page at / that shows models and queues (true).",
                   [](ServeOptions& o) -> bool& { return o.http.status_page; }),
  };
}

std::vector<Flag> grpc_flags() {
  const char* group = "gRPC";
  const auto number = [&](const char* name, const char* help, int GrpcOptions::*field) {
    return integer_flag(group, name, help, 0, most_int,
                        [field](ServeOptions& o, int64_t n) { o.grpc.*field = static_cast<int>(n); });
  };
  return {
      boolean_flag(group, "allow-grpc", "Listen for gRPC (true).",
                   [](ServeOptions& o) -> bool& { return o.allow_grpc; }),
      {group, "grpc-address", "ADDRESS", "Where (127.0.0.1: this machine alone; 0.0.0.0: everyone).",
       [](ServeOptions& options, const std::string& address) {
         options.grpc.address = address;
         options.grpc_address_given = true;
       }},
      integer_flag(group, "grpc-port", "At which port (8001; 0: a free one).", 0, 65535,
                   [](ServeOptions& o, int64_t n) { o.grpc.port = static_cast<uint16_t>(n); }),
      boolean_flag(group, "reuse-grpc-port", "Let other servers listen there, too.",
                   [](ServeOptions& o) -> bool& { return o.grpc.reuse_port; }),
      integer_flag(group, "grpc-infer-thread-count", "Threads that read and write (2).", 1, 256,
                   [](ServeOptions& o, int64_t n) { o.grpc.threads = static_cast<int>(n); }),
      number("grpc-max-message-size", "Bytes of a request or response (2147483647).", &GrpcOptions::max_message_size),
      text_flag(group, "grpc-header-forward-pattern", "REGEX", "Metadata that become parameters of requests.",
                [](ServeOptions& o) -> std::string& { return o.grpc.forward_headers; }),
      {group, "grpc-restricted-protocol", "APIS:KEY=VALUE", "APIs that ask for metadata; may be repeated.",
       [](ServeOptions& options, const std::string& text) {
         options.grpc.restricted.add(text, restricted_protocol_prefix);
       }},
      {group, "grpc-use-ssl", "BOOL", "Encrypt, with the certificate below.",
       [](ServeOptions& options, const std::string& text) {
         if (!read_boolean("grpc-use-ssl", text)) options.grpc.tls = {};
       }},
      boolean_flag(group, "grpc-use-ssl-mutual", "Clients must have a certificate.",
                   [](ServeOptions& o) -> bool& { return o.grpc.tls.mutual; }),
      text_flag(group, "grpc-server-cert", "FILE", "The server's certificate in PEM form.",
                [](ServeOptions& o) -> std::string& { return o.grpc.tls.certificate; }),
      text_flag(group, "grpc-server-key", "FILE", "Its key.",
                [](ServeOptions& o) -> std::string& { return o.grpc.tls.key; }),
      text_flag(group, "grpc-root-cert", "FILE", "Authorities of clients' certificates.",
                [](ServeOptions& o) -> std::string& { return o.grpc.tls.authorities; }),
      text_flag(group, "grpc-infer-response-compression-level", "LEVEL", "none, low, medium or high.",
                [](ServeOptions& o) -> std::string& { return o.grpc.compression_level; }),
      number("grpc-keepalive-time", "Milliseconds between two pings (7200000).", &GrpcOptions::keepalive_time_ms),
      number("grpc-keepalive-timeout", "Milliseconds to wait for a ping's answer (20000).",
             &GrpcOptions::keepalive_timeout_ms),
      boolean_flag(group, "grpc-keepalive-permit-without-calls", "Ping without calls, too.",
                   [](ServeOptions& o) -> bool& { return o.grpc.keepalive_permit_without_calls; }),
      number("grpc-http2-max-pings-without-data", "Pings in a row without data (2; 0: any number).",
             &GrpcOptions::http2_max_pings_without_data),
      number("grpc-http2-min-recv-ping-interval-without-data", "Milliseconds between a client's pings (300000).",
             &GrpcOptions::http2_min_recv_ping_interval_without_data_ms),
      number("grpc-http2-max-ping-strikes", "Pings too early before a client is sent away (2; 0: never).",
             &GrpcOptions::http2_max_ping_strikes),
      number("grpc-max-connection-age", "Milliseconds that a connection may last (0: any time).",
             &GrpcOptions::max_connection_age_ms),
      number("grpc-max-connection-age-grace", "Milliseconds more for its calls.",
             &GrpcOptions::max_connection_age_grace_ms),
  };
}

std::vector<Flag> metrics_flags() {
  const char* group = "Metrics, traces, log";
  return {
      boolean_flag(group, "allow-metrics", "Metrics for Prometheus (true).",
                   [](ServeOptions& o) -> bool& { return o.allow_metrics; }),
      boolean_flag(group, "allow-gpu-metrics", "Those of GPUs (true).",
                   [](ServeOptions& o) -> bool& { return o.http.metrics.gpu; }),
      boolean_flag(group, "allow-cpu-metrics", "Those of the machine (true).",
                   [](ServeOptions& o) -> bool& { return o.http.metrics.cpu; }),
      text_flag(group, "metrics-address", "ADDRESS", "Where (as --http-address).",
                [](ServeOptions& o) -> std::string& { return o.http.metrics_address; }),
      integer_flag(group, "metrics-port", "At which port, under /metrics (8002; 0: a free one).", 0, 65535,
                   [](ServeOptions& o, int64_t n) { o.metrics_port = static_cast<int>(n); }),
      integer_flag(group, "metrics-interval-ms", "How old the machine's figures may be (2000).", 1, most_int,
                   [](ServeOptions& o, int64_t n) { o.http.metrics.interval_ms = static_cast<int>(n); }),
      {group, "metrics-config", "NAME=VALUE", "counter_latencies, histogram_latencies, summary_latencies=true.",
       [](ServeOptions& options, const std::string& text) { options.http.metrics.configure(text); }},
      {group, "trace-config", "SETTING", "[MODE,]NAME=VALUE: level, rate, count, mode, file, log-frequency, url.",
       take_trace_config},
      integer_flag(group, "log-verbose", "More lines (0).", 0, 100,
                   [](ServeOptions& o, int64_t n) { o.log.verbose_level = static_cast<uint32_t>(n); }),
      boolean_flag(group, "log-info", "Lines of information (true).",
                   [](ServeOptions& o) -> bool& { return o.log.info; }),
      boolean_flag(group, "log-warning", "Warnings (true).", [](ServeOptions& o) -> bool& { return o.log.warning; }),
      boolean_flag(group, "log-error", "Errors (true).", [](ServeOptions& o) -> bool& { return o.log.error; }),
      text_flag(group, "log-format", "FORMAT", "default, ISO8601, or json.",
                [](ServeOptions& o) -> std::string& { return o.log.format; }),
      text_flag(group, "log-file", "FILE", "Where to (the standard error).",
                [](ServeOptions& o) -> std::string& { return o.log.file; }),
  };
}

std::vector<Flag> server_flags() {
  const char* group = "Server";
  return {
      text_flag(group, "id", "NAME", "How the server calls itself (camshaft).",
                [](ServeOptions& o) -> std::string& { return o.server.id; }),
      integer_flag(group, "exit-timeout-secs", "Seconds that requests under way have when it ends (30).", 0, most_int,
                   [](ServeOptions& o, int64_t n) {
                     o.server.exit_timeout_seconds = o.grpc.exit_timeout_seconds = static_cast<int>(n);
                   }),
      boolean_flag(group, "allow-client-shm", "Clients may bring shared memory (false).",
                   [](ServeOptions& o) -> bool& { return o.server.allow_client_shared_memory; }),
      integer_flag(group, "request-memory-limit",
                   "Bytes of requests that are held at once; others are refused (half of the memory).", 1,
                   std::numeric_limits<int64_t>::max(),
                   [](ServeOptions& o, int64_t n) { o.server.request_memory = static_cast<uint64_t>(n); }),
      {group, "token-file", "FILE", "Requests must bring one of its tokens (Authorization: Bearer …).",
       [](ServeOptions& options, const std::string& file) {
         options.http.token_file = options.grpc.token_file = file;
       }},
      {group, "help", "", "This text.", [](ServeOptions& options, const std::string&) { options.help = true; }},
      {group, "version", "", "The version.", [](ServeOptions& options, const std::string&) { options.version = true; }},
  };
}

}  // namespace

const std::vector<Flag>& flags() {
  static const std::vector<Flag> all = [] {
    std::vector<Flag> list;
    for (const std::vector<Flag>& part :
         {repository_flags(), http_flags(), grpc_flags(), metrics_flags(), server_flags()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

const std::vector<IgnoredFlag>& ignored_flags() {
  static const std::vector<IgnoredFlag> all = {
      {"backend-directory", true, "backends are built in"},
      {"repoagent-directory", true, "there are no repository agents"},
      {"cache-directory", true, "the response cache is built in"},
      {"grpc-infer-allocation-pool-size", true, "calls keep no state between requests"},
      {"grpc-max-response-pool-size", true, "responses are made as they are sent"},
      {"pinned-memory-pool-byte-size", true, "inputs are read where they came in"},
      {"cuda-memory-pool-byte-size", true, "engines have their own memory"},
      {"cuda-virtual-address-size", true, "states have the size of their tensors"},
      {"min-supported-compute-capability", true, "engines say which GPUs they run on"},
      {"buffer-manager-thread-count", true, "copies are made by the instance's thread"},
      {"host-policy", true, "bind the process with numactl or taskset"},
      {"model-load-gpu-limit", true, "a model that does not fit is not loaded, with the reason"},
      {"model-load-retry-count", true, "a model that failed is tried again when it changes"},
      {"model-namespacing", true, "names are unique over all repositories"},
      {"enable-peer-access", true, "an instance uses one GPU"},
      {"allow-sagemaker", true, "there is no front end for SageMaker"},
      {"sagemaker-port", true, "there is no front end for SageMaker"},
      {"sagemaker-safe-port-range", true, "there is no front end for SageMaker"},
      {"sagemaker-thread-count", true, "there is no front end for SageMaker"},
      {"allow-vertex-ai", true, "there is no front end for Vertex AI"},
      {"vertex-ai-port", true, "there is no front end for Vertex AI"},
      {"vertex-ai-thread-count", true, "there is no front end for Vertex AI"},
      {"vertex-ai-default-model", true, "there is no front end for Vertex AI"},
  };
  return all;
}

}  // namespace camshaft::server
