#pragma once
// A CUDA graph of what a stream is given.
#include "runtime/context.h"
#include "tegula/stream.h"

namespace tegula::test {

/// The work that `body` queues on `stream`, recorded and instantiated; the graph itself is gone.
class RecordedGraph {
 public:
  template <class Body>
  RecordedGraph(const Stream& stream, Body&& body,
                runtime::cu::CaptureMode mode = runtime::cu::kCaptureThreadLocal) {
    using runtime::check, runtime::driver;
    const runtime::ContextScope scope(stream.device().index);
    const auto queue = static_cast<runtime::cu::Stream>(stream.handle());
    check(driver().stream_begin_capture(queue, mode), "cuStreamBeginCapture");
    body();
    runtime::cu::Graph graph = nullptr;
    check(driver().stream_end_capture(queue, &graph), "cuStreamEndCapture");
    check(driver().graph_instantiate(&ready_, graph, 0), "cuGraphInstantiateWithFlags");
    driver().graph_destroy(graph);
  }
  ~RecordedGraph() { runtime::driver().graph_exec_destroy(ready_); }
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;

  void replay(const Stream& stream) const {
    const runtime::ContextScope scope(stream.device().index);
    runtime::check(
        runtime::driver().graph_launch(ready_, static_cast<runtime::cu::Stream>(stream.handle())),
        "cuGraphLaunch");
  }

 private:
  runtime::cu::GraphExec ready_ = nullptr;
};

}  // namespace tegula::test
