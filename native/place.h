#ifndef BINLOG_PLACE_H
#define BINLOG_PLACE_H

#include "binlog.h"

int place_leads(struct binlog_place *place);

#endif
