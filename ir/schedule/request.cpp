#include "ir/schedule/request.h"

#include "ir/schedule/edits.h"
#include "ir/schedule/judge.h"
#include "ir/schedule/text.h"
#include "support/text.h"
#include "tegula/error.h"

namespace tegula::ir {

void throw_reasons(const Reasons& reasons) {
  std::vector<Diagnostic> all;
  for (const Reason& r : reasons) {
    Diagnostic& d = all.emplace_back();
    d.code = all_rules()[static_cast<std::size_t>(r.rule)].id;
    d.message = "schedule: " + r.text;
    d.loc = r.at;
    if (r.other.known()) d.notes.push_back({r.other, "the other one"});
  }
  throw CompileError(std::move(all));
}

CarriedOut requested_schedule(const Kernel& tile, PassContext& context, std::string_view text) {
  CarriedOut done = schedule_carried_out(tile, context);
  if (trim(text).starts_with("schedule")) {
    done.schedule = parse_schedule(text);
  } else {
    EditedSchedule edited = with_edits(std::move(done.schedule), text);
    if (!edited.reasons.empty()) throw_reasons(edited.reasons);
    done.schedule = std::move(edited.schedule);
  }
  const Verdict verdict = judge(done.machine, Graph(done.machine), done.schedule);
  if (!verdict.is_legal()) throw_reasons(verdict.reasons);
  return done;
}

}  // namespace tegula::ir
